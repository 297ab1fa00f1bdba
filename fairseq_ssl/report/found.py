"""What recipes and `fairseq-ssl score` leave in folders: outputs, scores, analyses and figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.json_files import parse_json
from fairseq_ssl.report.told import (
    Comparison,
    Parts,
    Score,
    comparisons_of,
    parts_of,
    scores_of,
)

SEED = re.compile(r"(?P<system>.+)\.(?P<seed>\d[\d+]*)")
OUTPUT, FIGURES = ".txt", (".png", ".svg", ".jpg", ".jpeg")


@dataclass
class Found:
    """All of some folders."""

    scores: list[Score] = field(default_factory=list)
    outputs: dict[tuple[str, str], list[Path]] = field(default_factory=dict)
    """By system and set, those of its seeds."""
    analyses: dict[str, Any] = field(default_factory=dict)
    """What other JSON files hold, by their names."""
    figures: dict[str, Path] = field(default_factory=dict)
    """By their names."""
    left_out: list[Path] = field(default_factory=list)
    """Figures that a page can not show."""
    links: list[Path] = field(default_factory=list)
    """Links to files outside the folder; a page may be published, and so might what they name."""
    comparisons: list[Comparison] = field(default_factory=list)
    parts: dict[str, Parts] = field(default_factory=dict)
    """Scores by type or by level, by what they are called."""

    def names(self) -> set[str]:
        """Return all systems."""
        return {score.system for score in self.scores} | {system for system, _ in self.outputs}

    def sets(self) -> list[str]:
        """Return the sets that there are outputs of."""
        return sorted({name for _, name in self.outputs})

    def systems(self, of_set: str) -> dict[str, list[Path]]:
        """Return the outputs of a set by system."""
        return {system: paths for (system, name), paths in self.outputs.items() if name == of_set}

    def is_empty(self) -> bool:
        """Tell whether there is nothing to show."""
        return not (self.scores or self.outputs or self.figures)


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
        whole.figures |= {f"{folder.name}/{name}": path for name, path in one.figures.items()}
        whole.parts |= one.parts
        whole.comparisons += one.comparisons
        whole.left_out += one.left_out
        whole.links += one.links
    return whole


def _found_in(folder: Path) -> Found:
    found = Found()
    if not folder.is_dir():
        raise DataError(
            f"{folder} is no folder. Expected one with outputs or scores, or an output with the "
            "name of its system: NAME=FILE."
        )
    whole = folder.resolve()
    for path in sorted(_files(folder), key=lambda path: (*system_of(path.parent), path)):
        name = path.relative_to(folder)
        if not path.resolve().is_relative_to(whole):
            found.links.append(path)
            continue
        suffix = path.suffix.lower()
        if suffix == OUTPUT:
            system, _ = system_of(path.parent)
            found.outputs.setdefault((system, path.stem), []).append(path)
        elif suffix == ".json":
            _take_json(found, path, name)
        elif suffix in FIGURES:
            found.figures[str(name.with_suffix(""))] = path
        elif suffix == ".pdf":
            found.left_out.append(path)
    return found


def system_of(folder: Path) -> tuple[str, str]:
    """Return the system and the seed that a folder's name tells, as in tagged.1."""
    name = folder.resolve().name
    parts = SEED.fullmatch(name)
    return (name, "") if parts is None else (parts["system"], parts["seed"])


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _take_json(found: Found, path: Path, name: Path) -> None:
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError):
        raise DataError(f"{path} is no JSON. Take it away, or make it again.") from None
    system, _ = system_of(path.parent)
    shown = str(name.with_suffix(""))
    scores = list(scores_of(content, path.name.split(".")[0], system))
    found.scores += scores
    found.comparisons += comparisons_of(content, shown)
    found.parts |= parts_of(content, shown)
    if not scores:
        found.analyses[str(name)] = content
