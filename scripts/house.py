"""How large the house's rooms are: files and functions of each package, and what is over a limit.

Prints a table; --check ends with exit code 1 where a file or a function is longer than agreed, or
the table in CONTRIBUTING.md is not this one.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
PARTS = ("fairseq_ssl", "scripts", "examples", "tests")
BEGIN, END = "<!-- house: begin -->", "<!-- house: end -->"
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Room:
    """Files of Python in a folder."""

    name: str
    files: list[int]
    """Lines of each."""
    functions: list[int]


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
    yield "| folder | files | lines of a file, median | longest | of a function, median | longest |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for room in rooms():
        cells = (
            room.name,
            rounded(len(room.files), 5),
            rounded(statistics.median(room.files), 10),
            rounded(max(room.files), 50),
            rounded(statistics.median(room.functions), 2),
            rounded(max(room.functions), 10),
        )
        yield f"| {' | '.join(map(str, cells))} |"


def rounded(number: float, to: int) -> str:
    """Return a number rounded up to a multiple."""
    return f"≤ {-(-int(number) // to) * to}"


def rooms() -> Iterator[Room]:
    """Yield all folders of code."""
    for part in PARTS:
        texts = {path: path.read_text(encoding="utf-8") for path in files(part)}
        lengths = [text.count("\n") for text in texts.values()]
        functions = [length(one) for path in texts for one in definitions(path)]
        yield Room(f"`{part}`", lengths, functions)


def files(part: str) -> list[Path]:
    """Return the Python files of a folder."""
    return sorted(path for path in (ROOT / part).rglob("*.py") if path.stat().st_size)


def definitions(path: Path) -> Iterator[Definition]:
    """Yield the functions of a file, methods and inner ones too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


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
            for one in definitions(path):
                if length(one) > LONGEST_FUNCTION:
                    yield (
                        f"{name}:{one.lineno}: {one.name} has {length(one)} lines; "
                        f"expected at most {LONGEST_FUNCTION}"
                    )


if __name__ == "__main__":
    main()
