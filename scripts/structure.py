"""Check the structure: sizes of files and functions, names, use of the command line below `cli`.

python scripts/structure.py            print the table of sizes
python scripts/structure.py --write    write the table to CONTRIBUTING.md
python scripts/structure.py --check    exit with 1 if a rule is broken or the table is outdated
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "fairseq_ssl"
FOLDERS = (PACKAGE, "scripts", "examples", "tests")
MAX_FILE, MAX_FUNCTION, MAX_MODULES, MAX_CLI = 450, 60, 213, 5700
SMALL = 60
"""Minimum number of lines of a module with one importer. Shorter modules belong to it."""
SMALL_MODULES: dict[str, str] = {}
"""Exceptions to this rule, with the reason."""
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
BEGIN, END = "<!-- structure: begin -->", "<!-- structure: end -->"
PEERS = """
| OpusFilter | 16 | 241 | 1008 | 9 | 0.3 | 8 | 68 |
| sacrebleu | 32 | 74 | 1981 | 14 | 5.6 | 57 | 77 |
| joeynmt | 24 | 342 | 1039 | 16 | 11.8 | 81 | 79 |
| fairseq2 | 410 | 114 | 1394 | 7 | 4.0 | 99 | 21 |
| sockeye | 38 | 261 | 2085 | 10 | 5.4 | 76 | 54 |
| errant | 10 | 149 | 510 | 15 | 11 | 0 | 3 |
| fairseq | 441 | 139 | 1844 | 8 | 5.7 | 20 | 28 |
""".strip()
"""Sizes of comparable packages in 2026, and of fairseq."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef


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

    def functions(self) -> Iterator[Definition]:
        """Yield all functions, including methods and nested functions."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Definition))


def main() -> None:
    """Print the table of sizes, write it, or check the rules."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--check", action="store_true", help="exit with 1 if a rule is broken")
    options.add_argument("--write", action="store_true", help="write the table to CONTRIBUTING.md")
    args = options.parse_args()
    table = "\n".join(size_table())
    page = ROOT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    updated = f"{before}{BEGIN}\n{table}\n{END}{after}"
    if args.write:
        page.write_text(updated, encoding="utf-8")
    if not args.check:
        print(table)
        return
    broken = [*long_code(), *module_problems(), *name_problems(), *cli_problems()]
    if updated != text:
        broken.append("CONTRIBUTING.md is outdated. Run: python scripts/structure.py --write")
    if broken:
        sys.exit("\n".join(broken))


@cache
def modules(folder: str) -> list[Module]:
    """Return the non-empty Python files of a folder."""
    paths = sorted(path for path in (ROOT / folder).rglob("*.py") if path.stat().st_size)
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [Module(path, text, ast.parse(text)) for path, text in zip(paths, texts, strict=True)]


def size_table() -> Iterator[str]:
    """Yield the rows of the table. Rounding keeps the table stable under small changes."""
    yield (
        "| | files | lines of a file, median | longest | of a function, median | longer than "
        f"{MAX_FUNCTION} (%) | functions typed (%) | public ones with a docstring (%) |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for folder in FOLDERS:
        files = modules(folder)
        functions = [function for module in files for function in module.functions()]
        lengths = list(map(function_lines, functions))
        documented = (
            bool(ast.get_docstring(function))
            for module in files
            for function in public_functions(module.tree)
        )
        cells = (
            f"`{folder}`",
            rounded(len(files), 5),
            rounded(statistics.median(module.lines for module in files), 10),
            rounded(max(module.lines for module in files), 50),
            rounded(statistics.median(lengths), 2),
            percent(lines > MAX_FUNCTION for lines in lengths),
            percent(map(is_typed, functions)),
            percent(documented),
        )
        yield f"| {' | '.join(cells)} |"
    yield PEERS


def rounded(number: float, step: int) -> str:
    """Return a number rounded up to a multiple of `step`, as an upper bound."""
    return f"≤ {-(-int(number) // step) * step}"


def percent(facts: Iterable[bool]) -> str:
    """Return the percentage of true facts, rounded down to a multiple of ten, as a lower bound."""
    share = int(10 * statistics.mean(facts)) * 10
    return str(share) if share in (0, 100) else f"≥ {share}"


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Yield the functions and methods without a leading underscore."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from public_functions(node)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def is_typed(function: Definition) -> bool:
    """Return True if a function has a type annotation."""
    arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return bool(function.returns or any(one.annotation for one in arguments))


def function_lines(function: Definition) -> int:
    """Return the number of lines of a function, without decorators."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def long_code() -> Iterator[str]:
    """Yield files and functions that are too long."""
    for folder in FOLDERS:
        for module in modules(folder):
            if module.lines > MAX_FILE:
                yield f"{module.name} has {module.lines} lines. Expected at most {MAX_FILE}."
            for function in module.functions():
                lines = function_lines(function)
                if lines > MAX_FUNCTION:
                    where = f"{module.name}:{function.lineno}: {function.name}"
                    yield f"{where} has {lines} lines. Expected at most {MAX_FUNCTION}."


def module_problems() -> Iterator[str]:
    """Yield an excess of modules, and modules that are too small."""
    files = [module for module in modules(PACKAGE) if not module.is_init]
    if len(files) > MAX_MODULES:
        yield f"{PACKAGE} has {len(files)} modules. Expected at most {MAX_MODULES}."
    cli = sum(module.lines for module in modules(f"{PACKAGE}/cli"))
    if cli > MAX_CLI:
        yield f"{PACKAGE}/cli has {cli} lines. Expected at most {MAX_CLI}."
    importers = importing_modules()
    for module in files:
        dotted = dotted_name(module)
        if module.lines < SMALL and len(importers[dotted]) == 1 and dotted not in SMALL_MODULES:
            (importer,) = importers[dotted]
            yield f"{module.name}: {module.lines} lines, one importer: {importer}. Merge them."


def dotted_name(module: Module) -> str:
    """Return the dotted name of a module."""
    parts = module.path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importing_modules() -> dict[str, set[str]]:
    """Return the importers of each module of the package."""
    names = {dotted_name(module) for module in modules(PACKAGE)}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules(PACKAGE):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (f"{node.module}.{alias.name}" for alias in node.names):
                    importers[name if name in names else node.module].add(dotted_name(module))
    return importers


def name_problems() -> Iterator[str]:
    """Yield names of modules, classes and type aliases that are not unique.

    Verbs are exempt: `cli/noise.py` is the verb of the package `noise`.
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
