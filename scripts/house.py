"""How large the house's rooms are: files and functions of each package, and what is over a limit.

Prints a table; --check ends with exit code 1 where a file or a function is longer than agreed, or
the table in CONTRIBUTING.md is not this one.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE, LONGEST_FUNCTION = 450, 60
PARTS = ("fairseq_ssl", "scripts", "examples", "tests")
BEGIN, END = "<!-- house: begin -->", "<!-- house: end -->"
Definition = ast.FunctionDef | ast.AsyncFunctionDef


MODELS = """
| OpusFilter | 16 | 241 | 1008 | 9 | 0.3 | 8 | 68 |
| sacrebleu | 32 | 74 | 1981 | 14 | 5.6 | 57 | 77 |
| joeynmt | 24 | 342 | 1039 | 16 | 11.8 | 81 | 79 |
| fairseq2 | 410 | 114 | 1394 | 7 | 4.0 | 99 | 21 |
| sockeye | 38 | 261 | 2085 | 10 | 5.4 | 76 | 54 |
| errant | 10 | 149 | 510 | 15 | 11 | 0 | 3 |
| fairseq | 441 | 139 | 1844 | 8 | 5.7 | 20 | 28 |
""".strip()
"""The same of the packages that this one takes as its models, and of fairseq."""


@dataclass(frozen=True)
class Room:
    """Files of Python in a folder."""

    name: str
    files: list[int]
    """Lines of each."""
    functions: list[int]
    typed: list[bool]
    """Of each function, whether it names types."""
    told: list[bool]
    """Of each public one that stands in no other, whether it has a docstring."""


def main() -> None:
    """Print the table, or check it."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument(
        "--check", action="store_true", help="fail where something is over a limit"
    )
    options.add_argument("--write", action="store_true", help="put the table into CONTRIBUTING.md")
    args = options.parse_args()
    table = "\n".join(rows())
    page = ROOT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    whole = f"{before}{BEGIN}\n{table}\n{END}{after}"
    if args.write:
        page.write_text(whole, encoding="utf-8")
    found = list(faults())
    if args.check and whole != text:
        found.append("CONTRIBUTING.md has another table: python scripts/house.py --write")
    if not args.check:
        print(table)
    elif found:
        sys.exit("\n".join(found))


def rows() -> Iterator[str]:
    """Yield the table, a folder a row, rounded so that small changes leave it alone."""
    yield (
        "| | files | lines of a file, median | longest | of a function, median | longer than "
        f"{LONGEST_FUNCTION} (%) | functions typed (%) | public ones with a docstring (%) |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for room in rooms():
        cells = (
            room.name,
            rounded(len(room.files), 5),
            rounded(statistics.median(room.files), 10),
            rounded(max(room.files), 50),
            rounded(statistics.median(room.functions), 2),
            percent(lines > LONGEST_FUNCTION for lines in room.functions),
            percent(room.typed),
            percent(room.told),
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield MODELS


def rounded(number: float, to: int) -> str:
    """Return a number rounded up to a multiple."""
    return f"≤ {-(-int(number) // to) * to}"


def percent(facts: Iterable[bool]) -> str:
    """Return how many of the facts are true, in steps of ten."""
    share = int(10 * statistics.mean(facts)) * 10
    return str(share) if share in (0, 100) else f"≥ {share}"


def rooms() -> Iterator[Room]:
    """Yield all folders of code."""
    for part in PARTS:
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files(part)}
        lengths = [path.read_text(encoding="utf-8").count("\n") for path in trees]
        functions = [one for tree in trees.values() for one in definitions(tree)]
        yield Room(
            f"`{part}`",
            lengths,
            [length(one) for one in functions],
            [is_typed(one) for one in functions],
            [bool(ast.get_docstring(one)) for tree in trees.values() for one in public(tree)],
        )


def files(part: str) -> list[Path]:
    """Return the Python files of a folder."""
    return sorted(path for path in (ROOT / part).rglob("*.py") if path.stat().st_size)


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """Yield the functions of a file, methods and inner ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Yield the functions and methods that others may call."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from public(node)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def is_typed(definition: Definition) -> bool:
    """Tell whether a function names a type."""
    arguments = definition.args.posonlyargs + definition.args.args + definition.args.kwonlyargs
    return bool(definition.returns or any(one.annotation for one in arguments))


def length(definition: Definition) -> int:
    """Return the lines of a function, from its name on."""
    assert definition.end_lineno is not None
    return definition.end_lineno - definition.lineno + 1


def faults() -> Iterator[str]:
    """Yield what is longer than agreed."""
    for part in PARTS:
        for path in files(part):
            name = path.relative_to(ROOT)
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > LONGEST_FILE:
                yield f"{name} has {lines} lines; expected at most {LONGEST_FILE}"
            for one in definitions(ast.parse(path.read_text(encoding="utf-8"))):
                if length(one) > LONGEST_FUNCTION:
                    yield (
                        f"{name}:{one.lineno}: {one.name} has {length(one)} lines; "
                        f"expected at most {LONGEST_FUNCTION}"
                    )


if __name__ == "__main__":
    main()
