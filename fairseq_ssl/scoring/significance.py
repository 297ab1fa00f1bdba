"""Whether one system is better than another: a paired bootstrap over sentences (Koehn, 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.float64]
"""[sentences, numbers]: what adds up to the numbers that the score of a corpus is made of."""
Score = Callable[[Statistics], float]
"""Of the numbers of a corpus, [numbers]."""

SAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline."""

    difference: float
    """Of the scores of the whole corpus."""
    low: float
    high: float
    """Where 95 % of the samples' differences lie."""
    p: float
    """How probable so large a difference would be, in one direction or the other, by chance."""


def paired_bootstrap(
    system: Sequence[Statistics],
    baseline: Sequence[Statistics],
    score: Score,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Comparison:
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

    def difference(weights: Statistics) -> float:
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
    return Comparison(observed, float(low), float(high), (further + 1) / (samples + 1))
