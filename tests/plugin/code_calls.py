"""Finds calls in Python sources that could run data as code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RUNS_CODE = re.compile(
    r"(builtins\.)?(eval|exec|compile|__import__|execfile)"
    r"|importlib(\.\w+)*\.(import_module|exec_module|spec_from_file_location|load_module)"
    r"|(.+\.)?exec_module|imp\.load_\w+|runpy\.\w+"
    r"|(c?[pP]ickle|_pickle|dill|cloudpickle|marshal|shelve)\.(loads?|open|Unpickler\w*)"
    r"|(pandas|pd)\.(read_pickle|eval)|joblib\.(load|Parallel)"
    r"|torch\.(load|jit\.load|hub\.\w+|package\.\w+|utils\.cpp_extension\.\w+)"
    r"|torch\.(ops|classes)\.load_library|(numpy\.)?ctypeslib\.\w+|ctypes\.(\w+\.)*LoadLibrary"
    r"|ctypes\.C?D?L?L?|(.+\.)?(cdll|CDLL|LoadLibrary|dlopen)"
    r"|yaml\.(load|load_all|full_load|unsafe_load|\w*UnsafeLoader|FullLoader|Loader)"
    r"|omegaconf\.OmegaConf\.(register_\w*resolver\w*)|(.+\.)?register_\w*resolver\w*"
    r"|hydra\.utils\.\w+|hydra\._internal\.\w+"
    r"|os\.(system|popen\w*|exec[lv]\w*|spawn\w*|startfile)|pty\.spawn"
    r"|subprocess\.(?!\w+Error)\w+|commands\.getoutput|asyncio\.create_subprocess\w*"
    r"|(.+\.)?(import_user_module|import_tasks|import_models)|timeit\.\w+|pdb\.run\w*"
)
"""Full names of functions that run code, load code, or unpickle."""

EXAMPLES = re.compile(r"(fairseq\.)?examples\.")
"""Modules that fairseq does not import by itself."""

RISKY_KEYWORDS = ("allow_pickle", "trust_remote_code", "shell")
"""Keywords that allow a call to run code unless they are False."""


class CodeCall(NamedTuple):
    """A call in a source file."""

    file: str
    function: str
    call: str


def find_calls(folder: Path, skipped: str = "") -> Iterator[CodeCall]:
    """Yield calls that could run code in the sources below a folder, once per function and kind.

    Args:
        folder: folder of a package
        skipped: a subfolder to skip
    """
    found = set()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder.parent).as_posix()
        if not (skipped and name.startswith(f"{folder.name}/{skipped}/")):
            visitor = _Visitor(name)
            visitor.visit(ast.parse(path.read_text("utf-8")))
            found.update(visitor.found)
    yield from sorted(found)


class _Visitor(ast.NodeVisitor):
    """Collects references to functions that run code, under the names of the imports."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.function: list[str] = []
        self.aliases: dict[str, str] = {}
        self.found: list[CodeCall] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self.aliases[alias.asname] = alias.name
            if EXAMPLES.match(alias.name):
                self._add(ast.unparse(node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            self.aliases[alias.asname or alias.name] = full
            if RUNS_CODE.fullmatch(full) or EXAMPLES.match(full):
                self._add(ast.unparse(node))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.function.append(node.name)
        self.generic_visit(node)
        self.function.pop()

    visit_ClassDef = visit_FunctionDef  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        risky = [word for word in node.keywords if word.arg in RISKY_KEYWORDS]
        off = [isinstance(word.value, ast.Constant) and not word.value.value for word in risky]
        if self._runs_code(node.func) or not all(off) or _turns_protection_off(node):
            self._add(ast.unparse(node))
            nodes = [*node.args, *node.keywords]
        else:
            nodes = [node.func, *node.args, *node.keywords]
        for child in nodes:
            self.visit(child)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Call) and self._name(node.value.func) == "globals":
            self._add(ast.unparse(node))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and self._runs_code(node):
            self._add(ast.unparse(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._runs_code(node):
            self._add(ast.unparse(node))
        else:
            self.generic_visit(node)

    def _runs_code(self, node: ast.expr) -> bool:
        return bool(RUNS_CODE.fullmatch(self._name(node)))

    def _name(self, node: ast.expr) -> str:
        """Return the full name of an expression, with imports resolved."""
        if isinstance(node, ast.Attribute):
            return f"{self._name(node.value)}.{node.attr}"
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        return "?"

    def _add(self, call: str) -> None:
        shown = " ".join(re.sub("[\"']", "", call).split())  # quotes differ between Python versions
        shown = shown if len(shown) <= 100 else f"{shown[:97]}..."
        self.found.append(CodeCall(self.file, ".".join(self.function) or "-", shown))


def _turns_protection_off(node: ast.Call) -> bool:
    return any(
        word.arg == "weights_only"
        and not (isinstance(word.value, ast.Constant) and word.value.value is True)
        for word in node.keywords
    )
