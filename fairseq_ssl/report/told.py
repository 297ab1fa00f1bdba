"""What files of scores tell: numbers of systems, differences between them, tables of parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

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
class Score:
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
class Comparison:
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


def scores_of(content: Any, of_set: str, system: str) -> Iterator[Score]:
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
        yield Score(name, of_set, named(metric, signature), values, signature)


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


def comparisons_of(content: Any, name: str) -> Iterator[Comparison]:
    """Yield what a file tells of systems against a baseline."""
    if not isinstance(content, dict):
        return
    found = _differences(content.get("against the baseline"))
    if found:
        yield Comparison(f"{name}: against the baseline", found)
    against = {
        system: told["against"]
        for system, told in _items(content.get("systems"))
        if isinstance(told, dict) and isinstance(told.get("against"), dict)
    }
    for baseline in dict.fromkeys(str(told.get("baseline")) for told in against.values()):
        of_it = {name: told for name, told in against.items() if told.get("baseline") == baseline}
        if found := _differences(of_it):
            yield Comparison(f"{name}: error against {baseline}", found, less_is_better=True)


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
