"""The line that tells from the length of a source how long its target can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FIT_SAMPLE = 100_000
"""Pairs that are looked at, spread over all of them."""

LengthPairs = NDArray[np.int64]


def parse_length_bound(words: str) -> tuple[float, float] | None:
    """Return the a and b of a user's "a,b", both 0 or more; None where that is not what it is."""
    try:
        slope, offset = (float(word) for word in words.split(","))
    except ValueError:
        return None
    return (slope, offset) if slope >= 0 and offset >= 0 else None


def fit_length_bound(
    sources: LengthPairs, targets: LengthPairs, share: float = 0.999
) -> tuple[float, float]:
    """Return (a, b) with target <= a source + b for at least `share` of the pairs.

    Of the slopes 0, 0.05, 0.1, ..., each with the least b that does, it is the one with the least
    mean of a source + b.
    """
    stride = max(1, len(sources) // FIT_SAMPLE)
    sources, targets = sources[::stride], targets[::stride]
    steepest = float(np.ceil((targets / np.maximum(sources, 1)).max()))
    best = (float("inf"), 0.0, 0.0)
    for twentieth in range(int(20 * min(steepest, 100.0)) + 1):
        slope = twentieth / 20
        # in hundredths, so that 1.15 times 20 is 23 and no more
        lacking = np.ceil((100 * targets - 5 * twentieth * sources) / 100)
        offset = max(0.0, float(np.quantile(lacking, share, method="higher")))
        best = min(best, (slope * float(sources.mean()) + offset, slope, offset))
    return best[1], best[2]


def training_lengths(task: Any) -> tuple[LengthPairs, LengthPairs] | None:
    """Return the lengths of a task's training pairs, ends counted; None where there are none."""
    split = getattr(task.cfg, "train_subset", "train")
    if split not in task.datasets:
        try:
            task.load_dataset(split)
        except FileNotFoundError:
            return None
    pairs = task.datasets[split]
    if getattr(pairs, "tgt_sizes", None) is None:
        return None
    return np.asarray(pairs.src_sizes, np.int64), np.asarray(pairs.tgt_sizes, np.int64)
