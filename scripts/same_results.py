"""Compare the results of two versions of the package: outputs, checkpoints, help texts and speed.

    python scripts/same_results.py HEAD~10 .                       two commits or checkouts
    python scripts/same_results.py HEAD . --only noise score-bleu  commands whose names begin so

`same_results.txt` has the commands, their new names and the accepted differences. Each command runs
once with each version. Both versions read the same inputs: toy corpora and the outputs of the old
version. So the new version reads the old checkpoints, and a difference does not cause further ones.
Paths, version numbers, dates and speeds are replaced before texts are compared. Times are CPU
seconds, and a ratio above 1 means that the new version is faster. `fairseq-ssl serve` is left out:
it does not end.

The exit code is 1 if a command fails or if there are differences that are not accepted.

Run it after each step of a refactoring, and before a release with the last release as the old
version. After the release, remove the new names and accepted differences from `same_results.txt`.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import hashlib
import json
import os
import re
import resource
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "scripts" / "same_results.txt"
DIFF_LINES, DIFF_WIDTH = 6, 160
VOLATILE = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "<date>",
    r"\b((?:train_)?wall|wps|ups)(\W+)[\d.inf]+": r"\1\2<speed>",
    r"\b[\d.,]+ ?(s|seconds|[a-z]*/s)\b": "<speed>",
}
"""Replacements of text on stdout and stderr that depends on time."""
DESCRIBE = "PYTHONPATH=$TREE:$ROOT/scripts python -c 'import same_results; same_results.describe()'"


class Table(NamedTuple):
    """Contents of `same_results.txt`."""

    inputs: list[str]
    commands: dict[str, tuple[str, str]]
    """Command line of the old and of the new version, by name."""
    moved: dict[str, str]
    """New command of `fairseq-ssl` by old command."""
    accepted: dict[str, str]
    """Reason by pattern."""


class Version(NamedTuple):
    """A checkout of the package, and the folder of its results."""

    tree: Path
    folder: Path


def read_table(text: str) -> Table:
    """Parse the table and replace its variables."""
    table, variables = Table([], {}, {}, {}), dict[str, str]()
    for line in text.replace("\\\n", " ").splitlines():
        kind, _, rest = string.Template(line).safe_substitute(variables).partition(": ")
        old, _, new = rest.partition(" => ")
        if re.match("[A-Z]+=", kind):
            name, _, value = kind.partition("=")
            variables[name] = value
        elif kind == "input":
            table.inputs.append(rest)
        elif kind == "moved":
            table.moved[old] = new
        elif kind.startswith("accept "):
            table.accepted[kind.removeprefix("accept ")] = rest
        elif rest and not kind.startswith("#"):
            table.commands[kind] = (old, new or old)
    return table


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Replace the names of commands of `fairseq-ssl`."""
    for name, other in names.items():
        text = re.sub(rf"fairseq-ssl {re.escape(name)}(?![\w-])", f"fairseq-ssl {other}", text)
    return text


def with_dependencies(table: Table, prefixes: list[str]) -> list[str]:
    """Return the commands whose names have one of the prefixes, and those that they need."""
    names = {name for name in table.commands if name.startswith(tuple(prefixes) or "")}
    for name in reversed(table.commands):
        if name in names:
            names |= {*re.findall(r"\$OLD/([\w+-]+)", table.commands[name][0])}
    return [name for name in table.commands if name in names]


def run(version: Version, command: str, name: str) -> float:
    """Run a command in a folder and store its output there. Return its CPU seconds."""
    folder = version.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    tree = {"TREE": str(version.tree), "PYTHONPATH": str(version.tree)}
    command = f"({command}) < /dev/null > stdout 2> stderr; echo $? > exit_code"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, **tree}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if (folder / "exit_code").read_text() != "0\n":
        print(f"FAILED: {folder}: {(folder / 'stderr').read_text()[-300:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def help_texts(version: Version, old_names: Mapping[str, str], command: str = "") -> float:
    """Store the help texts of a command and of its subcommands. Return the CPU seconds."""
    name = f"help/{old_names.get(command, command) or 'fairseq-ssl'}"
    seconds = run(version, f"fairseq-ssl {command} --help", name)
    text = (version.folder / name / "stdout").read_text().partition("\nexamples:")[0]
    names: list[str] = []
    if not command:
        names = re.findall(r"^  ([a-z]\S*(?: \S+)?)  +\S", text, re.MULTILINE)
    elif text.partition("\n")[0].endswith(" ..."):
        names = re.findall(r"^    ([a-z]\S*)", text, re.MULTILINE)
    commands = [f"{command} {name}".strip() for name in names]
    return seconds + sum(help_texts(version, old_names, command) for command in commands)


def describe() -> None:
    """Write all checkpoints, and the options for fairseq-train to the working folder, as text."""
    import onnx
    import torch
    from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_REGISTRY

    import fairseq_ssl

    def write(name: Path | str, *values: Any) -> None:
        text = "\n".join(json.dumps(value, default=as_json, indent=1) for value in values)
        Path(name).write_text(text.replace("\\n", "\n"))

    fairseq_ssl.register()
    for path in Path("..").rglob("*.pt"):
        state = torch.load(path, map_location="cpu", weights_only=False)
        for volatile in ("metrics", "previous_training_time"):
            state.get("extra_state", {}).pop(volatile, None)
        write(f"{path}.txt", state)
    for path in Path("..").rglob("*.onnx"):
        lines = str(onnx.load(path)).splitlines()
        write(f"{path}.txt", [line for line in lines if ".py" not in line])  # without stack traces
    registries = {name: registry["registry"] for name, registry in REGISTRIES.items()}
    for kind, registry in {"task": TASK_REGISTRY, "model": MODEL_REGISTRY, **registries}.items():
        for name, cls in registry.items():
            if cls.__module__.startswith("fairseq_ssl."):
                parser = argparse.ArgumentParser(name, conflict_handler="resolve")
                cls.add_args(parser)
                write(f"{kind}-{name}", parser.format_help(), parser.parse_known_args(["data"])[0])
    for name, set_defaults in ARCH_CONFIG_REGISTRY.items():
        if set_defaults.__module__.startswith("fairseq_ssl."):
            set_defaults(args := argparse.Namespace())
            write(f"arch-{name}", args)


def as_json(value: Any) -> Any:
    """Return the attributes of a namespace, and a checksum of a tensor."""
    if isinstance(value, argparse.Namespace):
        return vars(value)
    if hasattr(value, "detach"):
        digest = hashlib.sha256(value.detach().numpy().tobytes()).hexdigest()
        return f"{value.dtype} {'x'.join(map(str, value.shape))} sha256:{digest[:16]}"
    return repr(value)


def differences(versions: list[Version], old_names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each file that differs, and how it differs."""
    old, new = (
        {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        for _, folder in versions
    )
    for name in sorted({*old, *new}):
        if name not in old or name not in new:
            yield name, f"only in the {'old' if name in old else 'new'} version"
        elif f"{name}.txt" not in old and old[name].read_bytes() != new[name].read_bytes():
            texts = [text_of(old[name], versions[0]), text_of(new[name], versions[1])]
            texts[1] = renamed(texts[1], old_names)
            if texts[0] != texts[1]:
                yield name, short_diff(*texts)


def text_of(path: Path, version: Version) -> str:
    """Return a file as text. Paths, version numbers, dates and speeds are replaced."""
    text = path.read_bytes().decode(errors="backslashreplace")
    text = text.replace(str(version.folder), "<folder>").replace(str(version.tree), "<tree>")
    text = re.sub(r"(version\W{1,4})[\d.]+", r"\1<version>", text)
    for pattern, replacement in VOLATILE.items() if path.name in ("stdout", "stderr") else ():
        text = re.sub(pattern, replacement, text)
    return text


def short_diff(old: str, new: str) -> str:
    """Return the first lines or parts of sentences that differ."""
    parts = [re.split(r"\n|(?<=[,.]) ", text) for text in (old, new)]
    diff = list(difflib.unified_diff(parts[0], parts[1], n=0, lineterm=""))[2:]
    changed = [line[:DIFF_WIDTH] for line in diff if not line.startswith("@@")]
    return "\n".join([*changed[:DIFF_LINES], f"({len(changed)} lines)"])


def checkout(version: str, folder: Path) -> Path:
    """Return the folder of a checkout, or write the files of a commit to `folder`."""
    if Path(version).is_dir():
        return Path(version).resolve()
    archive = f"{folder}.tar"
    if subprocess.run(["git", "-C", str(ROOT), "archive", "-o", archive, version]).returncode:
        sys.exit(f"{version} is neither a folder nor a commit.")
    shutil.unpack_archive(archive, folder)
    return folder


def print_seconds(name: str, seconds: list[float]) -> None:
    """Print the CPU seconds of both versions and their ratio."""
    print(f"{name:24}{seconds[0]:8.2f}{seconds[1]:8.2f}{seconds[0] / seconds[1]:8.2f}", flush=True)


def compare(versions: list[Version], table: Table, only: list[str]) -> int:
    """Run the commands and print times and differences. Return the number of problems."""
    for version in versions:
        package = str(version.tree / "fairseq_ssl")
        subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    old_names = {new: old for old, new in table.moved.items()}
    print(f"{'CPU seconds':24}     old     new   ratio")
    seconds = {}
    for name in with_dependencies(table, only):
        old, new = table.commands[name]
        commands = zip(versions, (old, renamed(new, table.moved)), strict=True)
        seconds[name] = [run(version, command, name) for version, command in commands]
        print_seconds(name, seconds[name])
    if not only:
        seconds["help texts"] = [help_texts(versions[0], {}), help_texts(versions[1], old_names)]
        print_seconds("help texts", seconds["help texts"])
    print_seconds("total", [sum(column) for column in zip(*seconds.values(), strict=True)])
    for version in versions:
        run(version, DESCRIBE, "options")

    codes = [path.read_text() for path in versions[0].folder.rglob("exit_code")]
    problems, used = len(codes) - codes.count("0\n"), set()
    for name, difference in differences(versions, old_names):
        patterns = [pattern for pattern in table.accepted if fnmatch.fnmatch(name, pattern)]
        used |= {*patterns}
        problems += not patterns
        reason = f", accepted: {table.accepted[patterns[0]]}" if patterns else ""
        print(f"\n{name} differs{reason}\n{difference}")
    unused = {*table.accepted} - used
    if unused and not only:
        print(f"\naccepted, but there is no difference: {', '.join(sorted(unused))}")
    print(f"\n{problems} failures and differences that are not accepted")
    return problems


def main() -> None:
    """Compare two versions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="folder of a checkout, or a commit")
    parser.add_argument("new", help="folder of a checkout, or a commit")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help="beginnings of names")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="new folder for the outputs")
    args = parser.parse_args()
    if args.keep and args.keep.exists():
        parser.error(f"{args.keep} exists. Name a new folder.")
    table = read_table(TABLE.read_text(encoding="utf-8"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"PATH": path, "COLUMNS": "9999", "OMP_NUM_THREADS": "1"}
    os.environ |= {"ROOT": str(ROOT), "IN": "../../inputs", "OLD": "../../old"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or Path(temporary)).resolve()
        versions = [
            Version(checkout(version, Path(temporary, f"tree-{side}")), folder / side)
            for side, version in {"old": args.old, "new": args.new}.items()
        ]
        for command in table.inputs:
            run(Version(ROOT, folder), command, "inputs")
        sys.exit(compare(versions, table, args.only) > 0)


if __name__ == "__main__":
    main()
