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

    def shown(self, digits: int = 2) -> str:
        """Return ``61.20 ± 0.35``, or ``61.20`` of one value, which has no deviation."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean} ± {self.deviation:.{digits}f}" if len(self.values) > 1 else mean

    def __str__(self) -> str:
        """Return it with two digits."""
        return self.shown()


def cell(values: Sequence[float], digits: int = 2) -> str:
    """Return ``61.20 ± 0.35 (3)`` for a table: mean, deviation, and of how many; or ``not run``."""
    return f"{Spread.of(values).shown(digits)} ({len(values)})" if values else "not run"
