"""Differences between systems: paired bootstrap over sentences, mean and range over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SeedRange:
    """Scores of several seeds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedRange:
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
    return f"{SeedRange.of(values).shown(digits)} ({len(values)})" if values else "not run"


SentenceStatistics = NDArray[np.float64]
"""[sentences, numbers]: what adds up to the numbers that the score of a corpus is made of."""
CorpusScore = Callable[[SentenceStatistics], float]
"""Of the numbers of a corpus, [numbers]."""

SAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class BootstrapResult:
    """A system against a baseline."""

    difference: float
    """Of the scores of the whole corpus."""
    low: float
    high: float
    """Where 95 % of the samples' differences lie."""
    p: float
    """How probable so large a difference would be, in one direction or the other, by chance."""


def paired_bootstrap(
    system: Sequence[SentenceStatistics],
    baseline: Sequence[SentenceStatistics],
    score: CorpusScore,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> BootstrapResult:
    """Draw sentences with replacement, the same of both, and score them again and again.

    Args:
        system: statistics of each of its seeds, whose mean score counts
        baseline: the same of what it is compared with
        score: makes a score of statistics that were added up
        samples: how many times to draw
        seed: of the draws
    """
    count = len(system[0])
    assert all(len(statistics) == count for statistics in (*system, *baseline))

    def difference(weights: SentenceStatistics) -> float:
        ours, theirs = (
            float(np.mean([score(weights @ statistics) for statistics in each]))
            for each in (system, baseline)
        )
        return ours - theirs

    observed = difference(np.ones(count))
    draw = np.random.default_rng(seed)
    found = np.array(
        [
            difference(np.bincount(draw.integers(0, count, count), minlength=count).astype(float))
            for _ in range(samples)
        ]
    )
    low, high = np.percentile(found, [2.5, 97.5])
    further = int((np.abs(found - found.mean()) >= abs(observed)).sum())
    return BootstrapResult(observed, float(low), float(high), (further + 1) / (samples + 1))
