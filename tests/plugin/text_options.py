"""Finds options with text values in the sources of fairseq and its plug-ins."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

NUMBERS = ("int", "float", "bool")


def find_text_options(folder: Path, skipped: str = "") -> set[str]:
    """Return the names of options of dataclasses and parsers that may have any text as value."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        if not (skipped and path.relative_to(folder).parts[0] == skipped):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                found.update(_of_dataclass(node))
                found.update(_of_parser(node))
    return found


def _of_dataclass(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef) and any(
        "dataclass" in ast.unparse(each) for each in node.decorator_list
    ):
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                kind = ast.unparse(field.annotation)
                has_choices = field.value and "choices=" in ast.unparse(field.value)
                if ("str" in kind or "Any" in kind) and not has_choices:
                    yield field.target.id


def _of_parser(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    given = {word.arg: ast.unparse(word.value).strip("'\"") for word in node.keywords}
    names = [word.value for word in node.args if isinstance(word, ast.Constant)]
    is_switch = given.get("action", "store") != "store"
    is_free = "choices" not in given and given.get("type", "str") not in NUMBERS
    if node.func.attr == "add_argument" and names and not is_switch and is_free:
        name = given.get("dest") or str(max(names, key=lambda each: len(str(each))))
        yield name.lstrip("-").replace("-", "_")
