"""Linear bound on the target length given the source length, for ByteNet's dynamic unfolding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FIT_SAMPLE = 100_000
"""Maximum number of sentence pairs in the fit, evenly spaced in the data."""

LengthPairs = NDArray[np.int64]


def parse_length_bound(words: str) -> tuple[float, float] | None:
    """Parse "a,b", two numbers of 0 or more. Return None if the format is wrong."""
    try:
        slope, offset = (float(word) for word in words.split(","))
    except ValueError:
        return None
    return (slope, offset) if slope >= 0 and offset >= 0 else None


def fit_length_bound(
    sources: LengthPairs, targets: LengthPairs, share: float = 0.999
) -> tuple[float, float]:
    """Return (a, b) with target length <= a * source length + b for a `share` of the pairs.

    The slopes 0, 0.05, 0.1, ... are tried, each with the smallest b that meets the share. The
    result is the slope with the smallest mean bound.
    """
    stride = max(1, len(sources) // FIT_SAMPLE)
    sources, targets = sources[::stride], targets[::stride]
    steepest = float(np.ceil((targets / np.maximum(sources, 1)).max()))
    best = (float("inf"), 0.0, 0.0)
    for twentieth in range(int(20 * min(steepest, 100.0)) + 1):
        slope = twentieth / 20
        # Compute in hundredths, so that 1.15 times 20 is exactly 23.
        missing = np.ceil((100 * targets - 5 * twentieth * sources) / 100)
        offset = max(0.0, float(np.quantile(missing, share, method="higher")))
        best = min(best, (slope * float(sources.mean()) + offset, slope, offset))
    return best[1], best[2]


def training_lengths(task: Any) -> tuple[LengthPairs, LengthPairs] | None:
    """Return the source and target lengths of a task's training pairs, with end symbols.

    Return None if the task has no training pairs.
    """
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
