"""Score files that recipes and `fairseq-ssl score` write: collected from folders and parsed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.json_files import parse_json
from fairseq_ssl.metrics.significance import SeedRange

LOWER = re.compile(r"error|wrong|loss|perplexity|misclassif|\b[twc]er\b|seconds", re.IGNORECASE)
"""Metrics of which less is better."""
COUNTS = re.compile(r"deviation|^(lines|sentences|samples|seeds|effective order)$", re.IGNORECASE)
"""Numbers of which neither more nor less is better."""
DIGITS = re.compile(r"\d+")
LARGEST = 1e100
"""Numbers below it have a mean and a standard deviation, which are squared, that are finite."""
PARTS = {
    "operations": "operation",
    "types": "type",
    "full types": "full type",
    "levels": "level",
    "shares": "share",
}
"""What `fairseq-ssl score --by` writes, and what of it is told."""


@dataclass(frozen=True)
class ReportedScore:
    """A number that some text got."""

    system: str
    set: str
    """The held-out set, or nothing where the file does not tell."""
    metric: str
    values: tuple[float, ...]
    """Of its seeds."""
    signature: str


@dataclass(frozen=True)
class Difference:
    """Of a system from a baseline, by a paired bootstrap."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class ScoreComparison:
    """Systems against one of them."""

    title: str
    differences: dict[str, Difference]
    less_is_better: bool = False


Parts = dict[str, dict[str, SeedRange]]
"""Scores by what they are of, then by system."""


def direction(metric: str) -> int:
    """Return 1 where more is better, -1 where less is, 0 where neither."""
    if COUNTS.search(metric):
        return 0
    return -1 if LOWER.search(metric) else 1


def scores_of(content: Any, of_set: str, system: str) -> Iterator[ReportedScore]:
    """Yield what a file of scores tells; of other JSON, nothing.

    It is sacreBLEU's JSON, of one metric or several, or that of `fairseq-ssl score` or `classify
    score` with `--format json`, for one system or several.
    """
    if isinstance(content, list):
        for one in content:
            yield from scores_of(one, of_set, system)
    if not isinstance(content, dict) or "signature" not in content:
        return
    signature = str(content["signature"])
    for name, metric, values in _values(content, system):
        yield ReportedScore(name, of_set, named(metric, signature), values, signature)


def _values(content: dict[str, Any], system: str) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield systems, metrics and the numbers of seeds."""
    if isinstance(content.get("systems"), dict):
        for name, metrics in content["systems"].items():
            for metric, spread in _spreads(metrics).items():
                yield name, metric, spread.values
    elif _is_number(content.get("score")):
        yield system, str(content.get("name", "score")), (float(content["score"]),)
    else:
        for metric, value in content.items():
            if _is_number(value):
                yield system, metric, (float(value),)


def comparisons_of(content: Any, name: str) -> Iterator[ScoreComparison]:
    """Yield what a file tells of systems against a baseline."""
    if not isinstance(content, dict):
        return
    found = _differences(content.get("against the baseline"))
    if found:
        yield ScoreComparison(f"{name}: against the baseline", found)
    against = {
        system: told["against"]
        for system, told in _items(content.get("systems"))
        if isinstance(told, dict) and isinstance(told.get("against"), dict)
    }
    for baseline in dict.fromkeys(str(told.get("baseline")) for told in against.values()):
        of_it = {name: told for name, told in against.items() if told.get("baseline") == baseline}
        if found := _differences(of_it):
            yield ScoreComparison(f"{name}: error against {baseline}", found, less_is_better=True)


def parts_of(content: Any, name: str) -> Iterator[tuple[str, Parts]]:
    """Yield the tables by type or by level, with what they are called."""
    for key, part in PARTS.items():
        rows = _items(content.get(key)) if isinstance(content, dict) else []
        table = {row: _spreads(columns) for row, columns in rows}
        if any(table.values()):
            yield f"{name}: by {part}", table


def named(metric: str, signature: str) -> str:
    """Return `errant F_0.5` for F_0.5, which is told by several methods."""
    method = signature.partition("|")[0].removeprefix("classify-score")
    metric = metric.replace("_", " ") if metric.islower() else metric
    if not method or ":" in method or " " in method:
        return metric
    if any(method.lower() in name for name in (metric.lower(), DIGITS.sub("", metric.lower()))):
        return metric  # chrF2++ is the score of the method chrf++
    return f"{method} {metric}"


def _items(content: Any) -> list[tuple[str, Any]]:
    return list(content.items()) if isinstance(content, Mapping) else []


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isfinite(value) and abs(value) < LARGEST


def _spread(told: Any) -> SeedRange | None:
    """Return the numbers of seeds, as two commands write them."""
    if not isinstance(told, dict):
        return None
    values = told.get("seeds", told.get("values"))
    if not (isinstance(values, list) and values and all(map(_is_number, values))):
        return None
    return SeedRange.of([float(value) for value in values])


def _spreads(columns: Any) -> dict[str, SeedRange]:
    found = {name: _spread(told) for name, told in _items(columns)}
    return {name: spread for name, spread in found.items() if spread}


def _differences(content: Any) -> dict[str, Difference]:
    found = {}
    for system, told in _items(content):
        if not isinstance(told, dict):
            continue
        interval = told.get("interval", [told.get("low"), told.get("high")])
        if not isinstance(interval, list) or len(interval) != len(("low", "high")):
            continue
        numbers = [told.get("difference"), *interval, told.get("p")]
        if all(map(_is_number, numbers)):
            found[system] = Difference(*map(float, numbers))
    return found


SEED_PATTERN = re.compile(r"(?P<system>.+)\.(?P<seed>\d[\d+]*)")
OUTPUT, FIGURES = ".txt", (".png", ".svg", ".jpg", ".jpeg")


@dataclass
class ReportFiles:
    """All of some folders."""

    scores: list[ReportedScore] = field(default_factory=list)
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
    comparisons: list[ScoreComparison] = field(default_factory=list)
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


def collect_files(folders: Sequence[Path]) -> ReportFiles:
    """Look through folders and what is in them, in the order of names.

    Systems of one name in several folders have that of the folder before theirs.
    """
    each = [_found_in(folder) for folder in folders]
    names = Counter(name for one in each for name in one.names())
    whole = ReportFiles()
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


def _found_in(folder: Path) -> ReportFiles:
    found = ReportFiles()
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
    parts = SEED_PATTERN.fullmatch(name)
    return (name, "") if parts is None else (parts["system"], parts["seed"])


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _take_json(found: ReportFiles, path: Path, name: Path) -> None:
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
