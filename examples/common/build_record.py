"""Records of what the targets of a recipe were built from, for `build` in recipe.sh.

The record of a target is the JSON file WORK/records/TARGET.json. It holds the commands that build
the target, as a dry run prints them, the settings of the recipe, and fingerprints of the input
files that the commands name. A target is reused only where all of these are the same as today.

    build_record.py check TARGET    exit 0: reuse the target; 3: build it; 2: something differs
    build_record.py finish TARGET   the target is complete

Standard input holds the settings and then the commands: items NAME=VALUE, each ended by a NUL
byte, then the lines of the dry run.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

REUSE, DIFFERS, BUILD = 0, 2, 3

OUTPUTS = frozenset(
    {">", "-o", "--output", "--destdir", "--save-dir", "--source-output", "--scores"}
)
"""Options whose values are written, not read."""

RESOURCES = frozenset({"--workers", "--num-workers", "--jobs", "--shard", "--distributed-port"})
"""Options with one value that spread the work and never change the result."""

SAMPLES, SAMPLE_BYTES = 64, 1 << 20
"""A file larger than all samples together is hashed by samples, a smaller one as a whole."""

Commands = list[list[str]]


@dataclass
class Record:
    """What a target was built from."""

    step: str
    finished: bool
    commands: Commands
    settings: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """All words of all commands."""
        return [word for command in self.commands for word in command]

    def used_settings(self, own: str, others: str) -> dict[str, str]:
        """Return the settings whose values occur in the commands.

        Two settings may have one value, and one or two characters may occur by chance. So a
        setting is not used where other scripts name it and the `own` ones do not, and a short value
        has to be named.

        Args:
            own: text of the step's script and of what it may source, without settings.sh
            others: text of the other steps' scripts
        """
        text = " ".join(self.words)
        used = {}
        for name, value in self.settings.items():
            is_named, is_others = (re.search(rf"\b{name}\b", some) for some in (own, others))
            if (
                value
                and re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", text)
                and (is_named or (len(value) > 2 and not is_others))
            ):
                used[name] = value
        return used


class Recipe:
    """The settings of a recipe, and the records in its WORK."""

    def __init__(self, settings: dict[str, str]) -> None:
        """Paths below WORK, DATA_DIR, HERE and USER_DIR are stored with the name of the folder."""
        self.step = settings.pop("STEP")
        self.force = bool(settings.pop("FORCE", ""))
        choices = settings.pop("CHOICES", "").split()
        folders = {
            name: folder
            for name in ("WORK", "DATA_DIR", "HERE", "USER_DIR")
            if (folder := settings.pop(name, ""))
        }
        self.folders = {f"${name}": Path(folder) for name, folder in folders.items()}
        self.names = {
            spelling: f"${name}"
            for name, folder in folders.items()
            for spelling in (folder, str(Path.cwd() / folder))
        }
        self.settings = {
            name: self.shorten(value) for name, value in settings.items() if name not in choices
        }

    def shorten(self, text: str) -> str:
        """Write names in the place of folders: a copy of WORK or DATA_DIR is not a change."""
        for folder in sorted(self.names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w.-])", self.names[folder], text)
        return text

    def path(self, name: str) -> Path:
        """Return the file that a stored path stands for."""
        first, _, rest = name.partition("/")
        return self.folders[first] / rest if first in self.folders else Path(name)

    def scripts(self, step: str) -> tuple[str, str]:
        """Return the text of a step's script and its helpers, and that of the other steps."""
        own, others = "", ""
        for script in [*self.path("$HERE").glob("*.sh"), *Path(__file__).parent.glob("*.sh")]:
            if script.name == step or not script.name[0].isdigit():
                own += script.read_text("utf-8") if script.name != "settings.sh" else ""
            else:
                others += script.read_text("utf-8")
        return own, others

    def record_path(self, target: str) -> Path:
        """Return the file of a target's record."""
        return self.path(f"$WORK/records/{target.removeprefix('$WORK/')}.json")

    def read(self, target: str) -> Record | None:
        """Return the record of a target, or None where it has none."""
        path = self.record_path(target)
        try:
            return Record(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            _report(f"{self.step}: {path} is damaged. Delete it and set FORCE=1.")
            sys.exit(DIFFERS)

    def write(self, target: str, record: Record) -> None:
        """Write a record in one move: jobs of an array may write it at the same time."""
        path = self.record_path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(vars(record), indent=1) + "\n", "utf-8")
        temporary.replace(path)

    def owner(self, name: str) -> str | None:
        """Return the target that a stored path is, or is part of."""
        while name.startswith("$WORK/"):
            if self.record_path(name).exists():
                return name
            name = name.rpartition("/")[0]
        return None

    def fingerprint(self, name: str) -> str | None:
        """Return the state of an input: the record of a target, the contents of other files."""
        target = self.owner(name)
        record = self.read(target) if target else None
        if record is not None:
            return _digest(json.dumps([record.commands, record.inputs]))
        path = self.path(name)
        if path.is_dir():
            return _folder_digest(path)
        return _file_digest(path) if path.is_file() else None

    def inputs(self, target: str, commands: Commands) -> dict[str, str]:
        """Return the fingerprints of the targets and files that commands name, without the code."""
        outside = (f"{target}/", "$HERE/", "$USER_DIR")
        written = {target, *(name for words in commands for name in _outputs(words))}
        names = {name for words in commands for name in self._files(words, written)}
        # Without the folders around the target, but with their files, such as the decoded model.
        read = {
            self.owner(name) or name
            for name in names
            if not f"{target}/".startswith(f"{name}/") and not name.startswith(outside)
        }
        found = {name: self.fingerprint(name) for name in sorted(read - {target})}
        return {name: value for name, value in found.items() if value}

    def _files(self, words: list[str], written: set[str]) -> Iterator[str]:
        """Yield each word, or part of one, that is a file, a folder or a prefix of files.

        What is `written` is no prefix: runs/a would stand for runs/a.b too.
        """
        folders = [word for word in words if "/" in word and self.path(word).is_dir()]
        for word in words:
            for part in {word, *re.split(r"[\s'\"<>|=,:;()]+", word)}:
                if "/" not in part or part in written:
                    continue
                places = [part]
                if part.startswith("../"):  # splits that fairseq reads beside its data folder
                    places = [os.path.normpath(f"{folder}/{part}") for folder in folders]
                for place in places:
                    path = self.path(place)
                    if path.exists():
                        yield place
                    elif path.name and path.parent.is_dir():
                        ends = (file.name for file in path.parent.glob(f"{_literal(path.name)}.*"))
                        yield from (place + end.removeprefix(path.name) for end in ends)


def check(recipe: Recipe, target: str, dry_run: str) -> int:
    """Compare a target with its record; begin a new record where the target is to be built."""
    commands = parse_commands(dry_run, recipe)
    inputs = recipe.inputs(target, commands)
    today = Record(recipe.step, False, commands, recipe.settings, inputs)
    record = None if recipe.force else recipe.read(target)
    if record is not None:
        changes = list(_changes(recipe, record, today))
        if changes:
            return _stop(f"{recipe.step}: {target} was built with other settings:", changes)
    stale = list(_stale(recipe, inputs))
    if stale:
        return _stop(
            f"{recipe.step}: the inputs of {target} were built with other settings:", stale
        )
    path = recipe.path(target)
    if path.exists() and not recipe.force and (record is None or record.finished):
        _report(f"up to date: {path}")
        return REUSE
    recipe.write(target, today)
    return BUILD


def finish(recipe: Recipe, target: str) -> None:
    """Note that a target is complete. A file that changed meanwhile was an output."""
    record = recipe.read(target)
    assert record is not None, target
    record.inputs = {
        name: value for name, value in record.inputs.items() if recipe.fingerprint(name) == value
    }
    record.finished = True
    recipe.write(target, record)


def parse_commands(dry_run: str, recipe: Recipe) -> Commands:
    """Return the words of each command, without those that never change the result."""
    lines = [line for line in dry_run.splitlines() if line and not line.startswith("#")]
    return [_without_resources(shlex.split(recipe.shorten(line))) for line in lines]


def _without_resources(words: list[str]) -> list[str]:
    """Drop options of resources, and count the update frequency of all GPUs together."""
    kept: list[str] = []
    gpus, rest = "1", iter(words)
    for word in rest:
        if word == "--distributed-world-size":
            gpus = next(rest, gpus)
        elif word in RESOURCES:
            next(rest, None)
        elif word != "--force":
            kept.append(word)
    for place, word in enumerate(kept[1:], 1):
        if kept[place - 1] == "--update-freq" and word.isdigit() and gpus.isdigit():
            kept[place] = str(int(word) * int(gpus))
    return kept


def _outputs(words: list[str]) -> Iterator[str]:
    """Yield the paths that a command writes."""
    writes = False
    for word in words:
        if word in OUTPUTS or word.startswith("-"):
            writes = word in OUTPUTS
        elif writes:
            yield word


def _changes(recipe: Recipe, record: Record, today: Record) -> Iterator[str]:
    """Yield what differs between a record and today: settings, commands, inputs."""
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
    """Return the first words that differ, each with the option before it."""
    lines = []
    for kind, i, j, k, end in difflib.SequenceMatcher(None, before, now, False).get_opcodes():
        if kind != "equal":
            old, new = (" ".join(words) or "(none)" for words in (before[i:j], now[k:end]))
            option = before[i - 1] if i and before[i - 1].startswith("-") else "command"
            lines.append(f"{option}: {old[:100]} -> {new[:100]}")
    return lines[:most]


def _stale(recipe: Recipe, inputs: Iterable[str]) -> Iterator[str]:
    """Yield the settings of today that the targets behind some inputs were not built with."""
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
            # A variable of the other step alone is no setting, unless it is one without a default.
            is_optional = re.search(rf"\$\{{{name}:?[-+]", own)
            now = recipe.settings.get(name, "" if is_optional else value)
            if now != value:
                yield f"{name} was {value!r}, is {now!r}; {target} is from {record.step}"


def _stop(problem: str, lines: list[str]) -> int:
    advice = "Use another WORK, or FORCE=1 to build again, in the order of the steps."
    _report("\n".join([problem, *(f"  {line}" for line in lines), advice]))
    return DIFFERS


def _report(text: str) -> None:
    """Write lines in one call, so that those of parallel jobs do not mix."""
    sys.stderr.write(f"{text}\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _folder_digest(path: Path, most: int = 100) -> str:
    """Hash the names of all files, and their contents, or only their sizes in a large folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    few = len(files) <= most
    states = (_file_digest(file) if few else file.stat().st_size for file in files)
    named = zip(files, states, strict=True)
    return _digest("\n".join(f"{file.relative_to(path)} {state}" for file, state in named))


def _file_digest(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        if size <= SAMPLES * SAMPLE_BYTES:
            digest.update(file.read())
        else:
            for sample in range(SAMPLES):
                file.seek((size - SAMPLE_BYTES) * sample // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def main() -> int:
    """Check or finish one target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["check", "finish"])
    parser.add_argument("target")
    args = parser.parse_args()
    *items, dry_run = sys.stdin.read().split("\0")
    recipe = Recipe(dict(item.split("=", 1) for item in items))
    target = recipe.shorten(args.target)
    if not target.startswith("$WORK/"):
        _report(f"{recipe.step}: {args.target} is not in WORK.")
        return DIFFERS
    if args.action == "check":
        return check(recipe, target, dry_run)
    finish(recipe, target)
    return REUSE


if __name__ == "__main__":
    sys.exit(main())
