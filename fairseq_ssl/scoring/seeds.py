"""The same system trained with several seeds: the mean of its scores, and how they differ."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Scores of several seeds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Take one value or more."""
        assert values
        return cls(tuple(values))

    @property
    def mean(self) -> float:
        """Return the mean."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Return the sample standard deviation; 0 of one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        """Return ``61.20 ± 0.35``, or ``61.20`` of one value."""
        shown = f"{self.mean:.2f}"
        return f"{shown} ± {self.deviation:.2f}" if len(self.values) > 1 else shown
