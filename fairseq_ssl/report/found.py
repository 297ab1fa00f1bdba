"""What recipes and `fairseq-ssl score` leave in folders: outputs, scores, analyses and figures."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError

SEED = re.compile(r"(?P<system>.+)\.(?P<seed>\d[\d+]*)")
OUTPUT, FIGURES = ".txt", (".png", ".svg", ".jpg")


@dataclass(frozen=True)
class Score:
    """A number that some text got."""

    system: str
    set: str
    """The held-out set, or nothing where the file does not tell."""
    metric: str
    values: tuple[float, ...]
    """Of its seeds."""
    signature: str


@dataclass
class Found:
    """All of some folders."""

    scores: list[Score] = field(default_factory=list)
    outputs: dict[tuple[str, str], list[Path]] = field(default_factory=dict)
    """By system and set, those of its seeds."""
    analyses: dict[str, Any] = field(default_factory=dict)
    """What other JSON files hold, by their names."""
    figures: list[Path] = field(default_factory=list)
    comparisons: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the file, systems against a baseline."""

    def names(self) -> set[str]:
        """Return all systems."""
        return {score.system for score in self.scores} | {system for system, _ in self.outputs}

    def sets(self) -> list[str]:
        """Return the sets that there are outputs of."""
        return sorted({name for _, name in self.outputs})

    def systems(self, of_set: str) -> dict[str, list[Path]]:
        """Return the outputs of a set by system."""
        return {system: paths for (system, name), paths in self.outputs.items() if name == of_set}


def found_in(folders: Sequence[Path]) -> Found:
    """Look through folders and what is in them, in the order of names.

    Systems of one name in several folders have that of the folder before theirs.
    """
    each = [_found_in(folder) for folder in folders]
    names = Counter(name for one in each for name in one.names())
    whole = Found()
    for folder, one in zip(folders, each, strict=True):

        def named(system: str, folder: Path = folder) -> str:
            return system if names[system] == 1 else f"{folder.name}/{system}"

        whole.scores += [replace(score, system=named(score.system)) for score in one.scores]
        whole.outputs |= {(named(system), of): paths for (system, of), paths in one.outputs.items()}
        whole.analyses |= {f"{folder.name}/{name}": found for name, found in one.analyses.items()}
        whole.comparisons |= one.comparisons
        whole.figures += one.figures
    return whole


def _found_in(folder: Path) -> Found:
    found = Found()
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder. Expected one with outputs or scores.")
    for path in sorted(_files(folder), key=lambda path: (*system_of(path.parent), path)):
        if path.suffix == OUTPUT:
            system, _ = system_of(path.parent)
            found.outputs.setdefault((system, path.stem), []).append(path)
        elif path.suffix == ".json":
            _take_json(found, path, path.relative_to(folder))
        elif path.suffix in FIGURES:
            found.figures.append(path)
    return found


def system_of(folder: Path) -> tuple[str, str]:
    """Return the system and the seed that a folder's name tells, as in tagged.1."""
    parts = SEED.fullmatch(folder.name)
    return (folder.name, "") if parts is None else (parts["system"], parts["seed"])


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _take_json(found: Found, path: Path, name: Path) -> None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise DataError(f"{path} is no JSON. Take it away, or make it again.") from None
    scores = list(scores_of(content, path))
    found.scores += scores
    if isinstance(content, dict) and "against the baseline" in content:
        found.comparisons[str(name)] = content["against the baseline"]
    if not scores:
        found.analyses[str(name)] = content


def scores_of(content: Any, path: Path) -> Iterator[Score]:
    """Yield what a file of scores tells; of other JSON, nothing.

    It is sacreBLEU's JSON, or that of `fairseq-ssl score --format json` for one system or several.
    """
    if not isinstance(content, dict) or "signature" not in content:
        return
    of_set = path.name.split(".")[0]
    system, _ = system_of(path.parent)
    signature = str(content["signature"])
    if isinstance(content.get("systems"), dict):
        for name, metrics in content["systems"].items():
            for metric, told in metrics.items():
                yield Score(name, of_set, metric, tuple(told["seeds"]), signature)
    elif isinstance(content.get("score"), int | float):
        metric = str(content.get("name", "score"))
        yield Score(system, of_set, metric, (float(content["score"]),), signature)
    else:
        for metric, value in content.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield Score(system, of_set, metric, (float(value),), signature)
