"""Records of the commands and inputs of a recipe's targets, for `build` in recipe.sh.

The record of a target is the JSON file WORK/records/TARGET.json. It holds the commands that build
the target, as printed by a dry run, the settings of the recipe, and fingerprints of the input files
that the commands name. A target is reused only if all of these are unchanged.

    build_record.py check TARGET    exit with 0: reuse the target; 3: build it; 2: it has changed.
                                    Before 3, delete the target if it must be built again
    build_record.py compare TARGET  the same as check, but write no record and delete nothing
    build_record.py finish TARGET   mark the target as complete

Standard input has the settings as items NAME=VALUE, each terminated by a NUL byte, then the lines
of the dry run.
"""

from __future__ import annotations

import argparse
import difflib
import glob
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

REUSE, DIFFERS, BUILD = 0, 2, 3

OUTPUTS = {">", "-o", "--output", "--destdir", "--save-dir", "--source-output", "--scores"}
"""Options that name outputs."""

RESOURCES = frozenset({"--workers", "--num-workers", "--jobs", "--shard", "--distributed-port"})
"""Options of parallelism, with one value each, which do not change the result."""

SAMPLES, SAMPLE_BYTES = 64, 1 << 20
"""Number and size of hashed samples. Smaller files are hashed completely."""

BATCH_SIZES = frozenset({"--max-tokens", "--batch-size"})
PARTS_OF_BATCH = frozenset({"--distributed-world-size", "--update-freq"})
"""Options by whose product a recipe divides the batch sizes, so that the batch is the same."""

Commands = list[list[str]]


@dataclass
class Record:
    """Commands, settings and inputs of a target."""

    step: str
    finished: bool
    commands: Commands
    settings: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The words of all commands, concatenated."""
        return [word for command in self.commands for word in command]

    def used_settings(self, own: Script, others: Script) -> dict[str, str]:
        """Return the settings whose values occur in the commands.

        Two settings may have the same value, and a value of one or two characters may occur by
        chance. So a setting counts as unused if only `others` name it, or if `own` does not name it
        but another setting with the same value. A short value counts only if `own` names its
        setting.

        Args:
            own: the step's script and its helpers, without settings.sh
            others: the scripts of the other steps
        """
        text = " ".join(self.words)
        named = {value for name, value in self.settings.items() if name in own.names}
        return {
            name: value
            for name, value in self.settings.items()
            if value
            and value in text
            and (
                name in own.names
                or (len(value) > 2 and name not in others.names and value not in named)
            )
            and re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", text)
        }


class Script:
    """Names in the text of shell scripts."""

    def __init__(self, text: str) -> None:
        self.names = set(re.findall(r"\w+", text))
        self.optional = set(re.findall(r"\$\{(\w+):?[-+]", text))
        """Variables with a default."""


class Recipe:
    """The settings of a recipe and the records in its WORK."""

    def __init__(self, settings: dict[str, str]) -> None:
        """Split the settings into options, folders and values."""
        self.step = settings.pop("STEP")
        self.force = bool(settings.pop("FORCE", ""))
        self.rebuild = bool(settings.pop("REBUILD", ""))
        choices = settings.pop("CHOICES", "").split()
        gpus = settings.pop("GPUS", "1")
        folders = {
            name: folder
            for name in ("WORK", "DATA_DIR", "HERE", "USER_DIR")
            if (folder := settings.pop(name, ""))
        }
        self.folders = {f"${name}": Path(folder) for name, folder in folders.items()}
        self.names = {
            spelling: f"${name}"
            for name, folder in folders.items()
            for path in (folder, str(Path.cwd() / folder))
            for spelling in (path, path.replace(" ", "\\ "))  # quoted again for `bash -c`
        }
        self.settings = {
            name: self.shorten(_of_all_gpus(value, int(gpus) if gpus.isdigit() else 1))
            for name, value in settings.items()
            if name not in choices
        }
        self._scripts: dict[str, tuple[Script, Script]] = {}

    def shorten(self, text: str) -> str:
        """Replace folders by their names, so that moving WORK or DATA_DIR is not a change."""
        for folder in sorted(filter(text.__contains__, self.names), key=len, reverse=True):
            text = re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w.-])", self.names[folder], text)
        return text

    def path(self, name: str) -> Path:
        """Return the file of a stored path."""
        first, _, rest = name.partition("/")
        return self.folders[first] / rest if first in self.folders else Path(name)

    def scripts(self, step: str) -> tuple[Script, Script]:
        """Return a step's script with its helpers, and the other steps."""
        if step not in self._scripts:
            own, others = "", ""
            for script in [*self.path("$HERE").glob("*.sh"), *Path(__file__).parent.glob("*.sh")]:
                if script.name == step or not script.name[0].isdigit():
                    own += script.read_text("utf-8") if script.name != "settings.sh" else ""
                else:
                    others += script.read_text("utf-8")
            self._scripts[step] = Script(own), Script(others)
        return self._scripts[step]

    def record_path(self, target: str) -> Path:
        """Return the path of a target's record."""
        return self.path(f"$WORK/records/{target.removeprefix('$WORK/')}.json")

    def read(self, target: str) -> Record | None:
        """Return the record of a target, or None if it does not exist."""
        path = self.record_path(target)
        try:
            return Record(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            _report(f"{self.step}: {path} is damaged. Delete it and set FORCE=1.")
            sys.exit(DIFFERS)

    def write(self, target: str, record: Record) -> None:
        """Write a record atomically: jobs of an array may write it at the same time."""
        path = self.record_path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(vars(record), indent=1) + "\n", "utf-8")
        temporary.replace(path)

    def owner(self, name: str) -> str | None:
        """Return the target that is, or contains, a stored path."""
        while name.startswith("$WORK/"):
            if self.record_path(name).exists():
                return name
            name = name.rpartition("/")[0]
        return None

    def fingerprint(self, name: str) -> str | None:
        """Return a hash of an input: of the record of a target, or of the content of a file."""
        if (target := self.owner(name)) and (record := self.read(target)):
            return _digest(json.dumps([record.commands, record.inputs]))
        path = self.path(name)
        if path.is_dir():
            return _folder_digest(path)
        return _file_digest(path) if path.is_file() else None

    def inputs(self, target: str, commands: Commands) -> dict[str, str]:
        """Return the fingerprints of targets and files in the commands, except code."""
        outside = (f"{target}/", "$HERE/", "$USER_DIR")
        written = {target, *(name for words in commands for name in _outputs(words))}
        names = {name for words in commands for name in self._files(words, written)}
        # Parent folders of the target are not inputs, but other files in them are, such as the
        # model. A folder of outputs changes, unless it is a target.
        read = {
            self.owner(name) or name
            for name in names
            if not f"{target}/".startswith(f"{name}/") and not name.startswith(outside)
        }
        parents = {str(parent) for name in written for parent in Path(name).parents}
        read -= {target, *(name for name in parents if not self.owner(name))}
        found = {name: self.fingerprint(name) for name in sorted(read)}
        return {name: value for name, value in found.items() if value}

    def _files(self, words: list[str], written: set[str]) -> Iterator[str]:
        """Yield words, and parts of words, that are a file, a folder or a prefix of files.

        Paths in `written` are not prefixes: runs/a would include runs/a.b.
        """
        folders = [word for word in words if "/" in word and self.path(word).is_dir()]
        for option, word in itertools.pairwise(["", *words]):
            if option.startswith("--") and word and "/" not in word and Path(word).is_dir():
                yield word
            for part in {word, *re.split(r"[\s'\"<>|=,:;()]+", word)}:
                if not part.strip("/") or "/" not in part or part in written:
                    continue
                places = [part]
                if part.startswith("../"):  # splits relative to fairseq's data folder
                    places = [os.path.normpath(f"{folder}/{part}") for folder in folders]
                for place in places:
                    path = self.path(place)
                    if path.exists():
                        yield place
                    elif path.name and path.parent.is_dir():
                        for file in path.parent.glob(f"{glob.escape(path.name)}.*"):
                            yield place + file.name.removeprefix(path.name)


def check(recipe: Recipe, target: str, dry_run: str, write: bool = True) -> int:
    """Compare a target with its record. Write a new record if the target must be built."""
    commands = parse_commands(dry_run, recipe)
    inputs = recipe.inputs(target, commands)
    today = Record(recipe.step, False, commands, recipe.settings, inputs)
    record = None if recipe.force else recipe.read(target)
    changes = [] if record is None else list(_changes(recipe, record, today))
    can_rebuild = recipe.rebuild and record is not None and record.settings == today.settings
    if changes and not can_rebuild:
        return _stop(f"{recipe.step}: {target} was built with other settings:", changes)
    if stale := list(_stale(recipe, inputs)):
        return _stop(f"{recipe.step}: inputs of {target} were built with other settings:", stale)
    path = recipe.path(target)
    again = recipe.force or bool(changes)
    if path.exists() and not again and (record is None or record.finished):
        _report(f"up to date: {path}")
        return REUSE
    if write:
        _start(recipe, target, today, again)
    return BUILD


def _start(recipe: Recipe, target: str, record: Record, again: bool) -> None:
    """Write the record of a target to build, and with `again` delete the target.

    The target is renamed first. A step killed during the deletion would continue it otherwise.
    """
    path = recipe.path(target)
    old = path.with_name(f".{path.name}.old")
    _delete(old)  # of a killed step
    if again and (path.exists() or path.is_symlink()):
        path.rename(old)
    recipe.write(target, record)
    _delete(old)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def finish(recipe: Recipe, target: str) -> None:
    """Mark a target as complete. Inputs that were written since `check` were outputs."""
    record = recipe.read(target)
    assert record is not None, target
    began = _last_change(recipe.record_path(target))
    # With FORCE=1 an intermediate file may have the content of the first build.
    loose = {name for name in record.inputs if name.startswith("$WORK/") and not recipe.owner(name)}
    record.inputs = {
        name: value
        for name, value in record.inputs.items()
        if recipe.fingerprint(name) == value
        and (name not in loose or _last_change(recipe.path(name)) < began)
    }
    record.finished = True
    recipe.write(target, record)


def parse_commands(dry_run: str, recipe: Recipe) -> Commands:
    """Return the words of each command, without options that do not change the result."""
    lines = [line for line in dry_run.splitlines() if line and not line.startswith("#")]
    return [_without_resources(map(recipe.shorten, shlex.split(line))) for line in lines]


def _without_resources(words: Iterable[str], gpus: int = 1) -> list[str]:
    """Remove options of parallelism, and replace batch sizes by those of all GPUs and parts."""
    kept: list[str] = []
    parts = {"--distributed-world-size": gpus}
    option = ""
    for word in words:
        if option in PARTS_OF_BATCH and word.isdigit():
            parts[option] = int(word)
            kept.pop()
        elif option in RESOURCES:
            kept.pop()
        elif word != "--force":
            kept.append(word)
        option = word
    factor = math.prod(parts.values())
    return [
        str(int(word) * factor) if option in BATCH_SIZES and word.isdigit() else word
        for option, word in itertools.pairwise(["", *kept])
    ]


def _of_all_gpus(value: str, gpus: int) -> str:
    """Return a setting that is a list of options with the batch sizes of all GPUs."""
    words = value.split()
    return " ".join(_without_resources(words, gpus)) if BATCH_SIZES & set(words) else value


def _outputs(words: list[str]) -> Iterator[str]:
    """Yield the output paths of a command."""
    writes = False
    for word in words:
        if word in OUTPUTS or word.startswith("-"):
            writes = word in OUTPUTS
        elif writes:
            yield word


def _changes(recipe: Recipe, record: Record, today: Record) -> Iterator[str]:
    """Yield the differences between two records: settings, commands, inputs."""
    if record.commands != today.commands:
        changed = set(record.words) ^ set(today.words)
        names = {**record.settings, **today.settings}
        pairs = {
            name: (record.settings.get(name, ""), today.settings.get(name, "")) for name in names
        }
        settings = {name: (before, now) for name, (before, now) in pairs.items() if before != now}
        visible = {
            name: pair
            for name, pair in settings.items()
            if changed & {word for value in pair for word in (value, *value.split())}
        }
        for name, (before, now) in (visible or settings).items():
            yield f"{name} was {before!r}, is {now!r}"
        yield from _changed_words(record.words, today.words)
    for name, value in record.inputs.items():
        if recipe.fingerprint(name) not in (None, value):
            yield f"the input {name} has changed"


def _changed_words(before: list[str], now: list[str], most: int = 3) -> list[str]:
    """Return the first differing words, each with the option before it."""
    lines = []
    for kind, i, j, k, end in difflib.SequenceMatcher(None, before, now, False).get_opcodes():
        if kind != "equal":
            old, new = (" ".join(words) or "(none)" for words in (before[i:j], now[k:end]))
            option = before[i - 1] if i and before[i - 1].startswith("-") else "command"
            lines.append(f"{option}: {old[:100]} -> {new[:100]}")
    return lines[:most]


def _stale(recipe: Recipe, inputs: Iterable[str]) -> Iterator[str]:
    """Yield current settings that differ from those of the targets that the inputs depend on."""
    seen: set[str | None] = {None}
    waiting = list(inputs)
    while waiting:
        target = recipe.owner(waiting.pop())
        record = recipe.read(target) if target and target not in seen else None
        seen.add(target)
        if record is None:
            continue
        waiting += record.inputs
        own, others = recipe.scripts(record.step)
        for name, value in record.used_settings(own, others).items():
            # A variable that only that step sets is not a setting, unless it has no default.
            now = recipe.settings.get(name, "" if name in own.optional else value)
            if now != value:
                yield f"{name} was {value!r}, is {now!r}; {target} is from {record.step}"


def _stop(problem: str, lines: list[str]) -> int:
    advice = "Set another WORK, or set FORCE=1 and run the steps again in order."
    _report("\n".join([problem, *(f"  {line}" for line in lines), advice]))
    return DIFFERS


def _report(text: str) -> None:
    """Write lines in one call, so that lines of parallel jobs are not interleaved."""
    sys.stderr.write(f"{text}\n")


def _last_change(path: Path) -> int:
    """Return the time of the last change of a file, or of a folder and all files in it."""
    return max(file.lstat().st_mtime_ns for file in (path, *path.rglob("*")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _folder_digest(path: Path, most: int = 100) -> str:
    """Hash the names and contents of all files, or names and sizes for more than `most` files."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    states = (_file_digest(file) if len(files) <= most else file.stat().st_size for file in files)
    named = zip(files, states, strict=True)
    return _digest("\n".join(f"{file.relative_to(path)} {state}" for file, state in named))


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256(str(size := path.stat().st_size).encode())
    with path.open("rb") as file:
        if size <= SAMPLES * SAMPLE_BYTES:
            digest.update(file.read())
        else:
            for sample in range(SAMPLES):
                file.seek((size - SAMPLE_BYTES) * sample // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def main() -> int:
    """Run the action on a target. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["check", "compare", "finish"])
    parser.add_argument("target")
    args = parser.parse_args()
    *items, dry_run = sys.stdin.read().split("\0")
    recipe = Recipe(dict(item.split("=", 1) for item in items))
    target = recipe.shorten(args.target)
    if not target.startswith("$WORK/"):
        _report(f"{recipe.step}: {args.target} is not in WORK.")
        return DIFFERS
    if args.action != "finish":
        return check(recipe, target, dry_run, write=args.action == "check")
    finish(recipe, target)
    return REUSE


if __name__ == "__main__":
    sys.exit(main())
