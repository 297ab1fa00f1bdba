"""Check the structure: lines of each package, names, use of the command line below `cli`.

python scripts/structure.py            print the lines of each package and its budget
python scripts/structure.py --write    lower the budgets to the lines that are left
python scripts/structure.py --check    exit with 1 if a rule is broken

A budget only falls: run --write after deleting code. If a capability needs more lines than it can
free, raise the number in budget.json, and say in the commit message what users get for it.

Duplicates on purpose:

- `metrics/errant.py` and `metrics/maxmatch/scores.py` both select annotators, because they follow
  two reference scripts that round differently.
- The texts of `NoiseSpec` and `FilterSpec` are parts of signatures on disk.
- Two decoders and a scorer split a batch that does not fit into memory. Each handles a single
  sentence differently.
- `LanguageModelScorer` reads text and files, `Fluency` gets ids from `fairseq-generate`.
- `noise.batch.Random` and `modules.functional.mix_bits`: numpy has unsigned integers, torch has
  signed ones.
- `build_generator` in four tasks, and fields repeated in configurations: fairseq requires both.
- `__getattr__` in the `__init__.py` of five packages: their only common import would be `errors`.
- Each recipe has its own table, because it reads its own folders.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "fairseq_ssl"
FOLDERS = (PACKAGE, "scripts", "examples", "tests")
BUDGET = ROOT / "scripts" / "budget.json"
"""The maximum number of lines of each package and of its tests."""
UNDECLARED = "add_argument"
"""Name in the budget of the number of options that commands do not declare by `options.option`."""
STEP = 10
"""Budgets are multiples of this number of lines, so that small changes need no new budget."""
BELOW_CLI = (
    *("analysis", "checkpoints", "edits", "filters", "inference", "io", "learned_filter"),
    *("metrics", "noise", "report", "rerank", "text"),
)
"""Packages without argparse, printing and names of flags."""
ALLOWED_FLAGS = {
    "checkpoints": "flags of fairseq-train, stored in checkpoints",
    "noise": "flags of aspell",
}
ALLOWED = {
    ("checkpoints", "imports argparse"): "checkpoints of fairseq contain Namespaces",
    ("text", "uses sys.stderr"): "subword-nmt prints during training",
}
FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]+")


@dataclass(frozen=True)
class Module:
    """A parsed Python file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path relative to the repository."""
        return str(self.path.relative_to(ROOT))

    @property
    def lines(self) -> int:
        """The number of lines of the file."""
        return self.text.count("\n")

    @property
    def is_init(self) -> bool:
        """True for `__init__.py` and `__main__.py`."""
        return self.path.name in ("__init__.py", "__main__.py")


def main() -> None:
    """Print the table of lines, write the budgets, or check the rules."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--check", action="store_true", help="exit with 1 if a rule is broken")
    options.add_argument("--write", action="store_true", help="lower the budgets")
    args = options.parse_args()
    lines, budget = package_lines(), json.loads(BUDGET.read_text(encoding="utf-8"))
    if args.write:
        lowered = {
            name: min(budget.get(name, sys.maxsize), rounded(count))
            for name, count in lines.items()
        }
        BUDGET.write_text(f"{json.dumps(lowered, indent=2)}\n", encoding="utf-8")
    elif args.check:
        problems = (budget_problems(lines, budget), name_problems(), cli_problems())
        broken = [problem for group in problems for problem in group]
        if broken:
            sys.exit("\n".join(broken))
    else:
        print_table(lines, budget)


def package_lines() -> dict[str, int]:
    """Return the number of lines of Python of each package, of the rest of it, and of the tests."""
    lines: Counter[str] = Counter()
    for folder in FOLDERS:
        for module in modules(folder):
            parts = module.path.relative_to(ROOT).parts
            depth = 1 + (folder in (PACKAGE, "tests")) + (parts[:2] == ("tests", "unit"))
            lines["/".join(parts[:-1][:depth])] += module.lines
    commands = (module.text for module in modules(PACKAGE) if "cli" in module.path.parts)
    lines[UNDECLARED] = sum(text.count(".add_argument(") for text in commands)
    return dict(sorted(lines.items()))


def print_table(lines: dict[str, int], budget: dict[str, int]) -> None:
    """Print the lines and the budget of each package, and the sums of each folder."""
    for folder in FOLDERS:
        names = [name for name in lines if name.partition("/")[0] == folder]
        for name in names if len(names) > 1 else []:
            print(f"{name:32}{lines[name]:8,}{budget.get(name, 0):8,}")
        total, allowed = (sum(table.get(name, 0) for name in names) for table in (lines, budget))
        print(f"{folder + ' in all':32}{total:8,}{allowed:8,}")
    print(f"{'calls of ' + UNDECLARED:32}{lines[UNDECLARED]:8,}{budget.get(UNDECLARED, 0):8,}")


def budget_problems(lines: dict[str, int], budget: dict[str, int]) -> Iterator[str]:
    """Yield packages with more lines than their budget, and budgets that have to fall."""
    for name in sorted({*lines, *budget}):
        count, limit = lines.get(name, 0), budget.get(name, 0)
        if count > limit:
            yield (
                f"{name} has {count:,} lines (or calls), and its budget is {limit:,}. Delete code, "
                f"or raise the budget in {BUDGET.name} and say in the commit what users get for it."
            )
        elif limit > rounded(count) + 5 * STEP:
            yield (
                f"{name} has {count:,} lines (or calls), and its budget is still {limit:,}. "
                "Run: python scripts/structure.py --write"
            )


def rounded(lines: int) -> int:
    """Return a number of lines rounded up to a multiple of `STEP`."""
    return -(-lines // STEP) * STEP


@cache
def modules(folder: str) -> list[Module]:
    """Return the non-empty Python files of a folder."""
    paths = sorted(path for path in (ROOT / folder).rglob("*.py") if path.stat().st_size)
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [Module(path, text, ast.parse(text)) for path, text in zip(paths, texts, strict=True)]


def name_problems() -> Iterator[str]:
    """Yield names of modules, classes and type aliases that are not unique.

    Commands are exempt: `cli/noise.py` is the command of the package `noise`.
    """
    files = [module for module in modules(PACKAGE) if not module.is_init]
    stems = Counter(module.path.stem for module in files if module.path.parent.name != "cli")
    for stem, count in stems.items():
        if count > 1:
            yield f"{count} modules are named {stem}.py"
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for module in files:
        for name in public_types(module.tree):
            owners[name].append(module.name)
    for name, where in owners.items():
        if len(where) > 1:
            yield f"{name} is defined in {' and '.join(where)}"


def public_types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of public classes and type aliases, but not of type variables."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            is_variable = isinstance(node.value, ast.Call)  # TypeVar, getLogger, compile
            if re.fullmatch(r"[A-Z][a-z]\w+", name) and not is_variable:
                yield name


def cli_problems() -> Iterator[str]:
    """Yield uses of the command line in the packages below `cli`."""
    for folder in BELOW_CLI:
        for module in modules(f"{PACKAGE}/{folder}"):
            for node in ast.walk(module.tree):
                what = command_line_use(node)
                if what.startswith("mentions") and folder in ALLOWED_FLAGS:
                    continue
                if what and (folder, what) not in ALLOWED:
                    yield f"{module.name}:{node.lineno} {what}, which is for {PACKAGE}/cli"  # type: ignore[attr-defined]


def command_line_use(node: ast.AST) -> str:
    """Return the kind of use of the command line in a node, or an empty string."""
    if isinstance(node, ast.Import) and any(alias.name == "argparse" for alias in node.names):
        return "imports argparse"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
        return "prints"
    if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stderr", "sys.stdout"):
        return f"uses {ast.unparse(node)}"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = FLAG.search(node.value)
        return f"mentions {found[0]}" if found else ""
    return ""


if __name__ == "__main__":
    main()
