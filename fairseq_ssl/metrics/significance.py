"""Mean and standard deviation over seeds, and the paired bootstrap (Koehn, 2004)."""

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
        """Return the range of one value or more."""
        assert values
        return cls(tuple(values))

    @property
    def mean(self) -> float:
        """Return the mean."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Return the sample standard deviation, 0 for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def shown(self, digits: int = 2) -> str:
        """Return ``61.20 ± 0.35``, or ``61.20`` for a single value."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean} ± {self.deviation:.{digits}f}" if len(self.values) > 1 else mean

    def __str__(self) -> str:
        """Return the mean and the standard deviation with two digits."""
        return self.shown()


def cell(values: Sequence[float], digits: int = 2) -> str:
    """Return a table cell: ``61.20 ± 0.35 (3)``, the number of seeds last, or ``not run``."""
    return f"{SeedRange.of(values).shown(digits)} ({len(values)})" if values else "not run"


SentenceStatistics = NDArray[np.float64]
"""[sentences, numbers]: statistics whose sums determine the score of a corpus."""
CorpusScore = Callable[[SentenceStatistics], float]
"""Returns the score of summed statistics, [numbers]."""

SAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class BootstrapResult:
    """Difference between a system and a baseline, with its confidence interval.

    Example:
        >>> print(BootstrapResult(1.5, 0.25, 2.75, 0.021))
        +1.50 (95 %: +0.25 to +2.75, p = 0.0210)
    """

    difference: float
    """System minus baseline, on the whole corpus."""
    low: float
    """Lower end of the interval that holds 95 % of the samples."""
    high: float
    p: float
    """Probability of a difference at least as large by chance, in either direction."""

    def __str__(self) -> str:
        interval = f"{self.low:+.2f} to {self.high:+.2f}"
        return f"{self.difference:+.2f} (95 %: {interval}, p = {self.p:.4f})"


def bootstrap_statistics(
    system: Sequence[SentenceStatistics],
    baseline: Sequence[SentenceStatistics],
    score: CorpusScore,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> BootstrapResult:
    """Compare the mean scores of two systems over resampled corpora.

    Every sample draws the same sentences, with replacement, from both systems.

    Args:
        system: statistics of each seed of the system
        baseline: statistics of each seed of the baseline
        score: the score of summed statistics
        samples: number of bootstrap samples
        seed: seed of the samples
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
    rng = np.random.default_rng(seed)
    differences = np.array(
        [
            difference(np.bincount(rng.integers(0, count, count), minlength=count).astype(float))
            for _ in range(samples)
        ]
    )
    low, high = np.percentile(differences, [2.5, 97.5])
    further = int((np.abs(differences - differences.mean()) >= abs(observed)).sum())
    return BootstrapResult(observed, float(low), float(high), (further + 1) / (samples + 1))
