"""Results of the analyses: a JSON file, a figure and tables, of one form for all of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.metrics.metric import SeedRange
from fairseq_ssl.signature import Signature

Checkpoints = Mapping[str, Sequence[Path]]
"""Checkpoints of each model, several for runs with other seeds."""
Table = tuple[list[str], list[list[str]]]
"""A header and rows."""


@dataclass(frozen=True)
class AnalysisResult(ABC):
    """The result of an analysis."""

    signature: Signature
    results: dict[str, Any]
    """Values that JSON has."""

    @abstractmethod
    def tables(self) -> Iterator[Table]:
        """Yield the results as text."""

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Draw the figure."""

    def write(self, prefix: Path, image: str = "png") -> tuple[Path, Path]:
        """Write the results as ``PREFIX.json`` and the figure. Return their paths.

        Args:
            prefix: path without suffix
            image: ``png``, ``svg`` or ``pdf``
        """
        prefix.parent.mkdir(parents=True, exist_ok=True)
        figure = prefix.with_name(f"{prefix.name}.{image}")
        self.draw(figure)
        path = prefix.with_name(f"{prefix.name}.json")
        content = {
            "signature": str(self.signature),
            **self.signature.parameters,
            **self.results,
        }
        with atomic_lines(path) as file:
            file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        return path, figure


def check_bounds(name: str, bounds: Sequence[int]) -> None:
    """Reject upper bounds of buckets that are not increasing from 1."""
    if any(end <= before for before, end in zip([0, *bounds], bounds, strict=False)):
        raise UsageError(f"`{name}` is {list(bounds)}. Expected increasing numbers from 1.")


def check_models(checkpoints: Checkpoints, minimum: int) -> None:
    """Reject fewer models than an analysis compares."""
    if len(checkpoints) < minimum:
        names = ", ".join(checkpoints)
        raise UsageError(f"`checkpoint` names only {names}. Expected {minimum} names or more.")


def mean_and_sd(values: Iterable[float]) -> dict[str, float]:
    """Return the mean and the sample standard deviation (0 for one value), rounded to 0.0001."""
    seeds = SeedRange.of(list(values))
    return {"mean": round(seeds.mean, 4), "sd": round(seeds.deviation, 4)}
