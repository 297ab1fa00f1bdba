"""Select the k highest of any number of scores, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import Block

Scores = NDArray[np.float64]
SIGN = np.uint64(2**63)
DIGIT = 16
"""Number of bits of the threshold that each pass determines."""


@dataclass(frozen=True)
class Selection:
    """The highest scores in several arrays. Among equal scores, the first ones are selected."""

    pairs: int
    """Total number of scores."""
    kept: int
    """Number of selected scores."""
    threshold: float
    """Lowest selected score."""
    equal: list[int]
    """Number of selected scores that equal the threshold, for each array."""
    digest: str
    """Digest of all scores."""

    def is_kept(self, scores: Scores, index: int = 0) -> NDArray[np.bool_]:
        """Return a mask of the selected scores in the array with this index."""
        level = scores == self.threshold
        kept: NDArray[np.bool_] = level & (np.cumsum(level) <= self.equal[index])
        return kept | (scores > self.threshold)


def select_best(arrays: Callable[[], Iterable[Scores]], keep: float) -> Selection:
    """Select the highest `keep` percent of all scores.

    Args:
        arrays: function that returns the arrays of scores; it is called several times
        keep: percentage of the scores to select, above 0 and up to 100
    """
    count, digest = 0, hashlib.sha256()
    for scores in arrays():
        count += len(scores)
        digest.update(scores.tobytes())
    kept = max(1, round(count * keep / 100))
    threshold, left = _kth_largest(arrays, kept)
    equal = []
    for scores in arrays():
        equal.append(min(left, int((scores == threshold).sum())))
        left -= equal[-1]
    return Selection(count, kept, threshold, equal, digest.hexdigest()[:16])


def _kth_largest(arrays: Callable[[], Iterable[Scores]], k: int) -> tuple[float, int]:
    """Return the k-th largest score, and k minus the number of larger scores.

    Scores are compared as integers. Each pass determines the next `DIGIT` bits of the result: it
    counts the values of these bits among the scores whose higher bits equal those of the result.
    """
    prefix = np.uint64(0)
    for shift in range(64 - DIGIT, -1, -DIGIT):
        counts = np.zeros(2**DIGIT, np.int64)
        for scores in arrays():
            numbers = _ordered(scores) >> np.uint64(shift)
            digits = numbers[numbers >> np.uint64(DIGIT) == prefix] & np.uint64(2**DIGIT - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=2**DIGIT)
        larger = np.cumsum(counts[::-1])[::-1] - counts
        digit = int(np.flatnonzero(larger < k)[0])
        k -= int(larger[digit])
        prefix = (prefix << np.uint64(DIGIT)) | np.uint64(digit)
    bits = prefix ^ SIGN if prefix & SIGN else ~prefix
    return float(bits.view(np.float64)), k


def _ordered(scores: Scores) -> NDArray[np.uint64]:
    """Map scores to unsigned integers that sort in the same order."""
    bits = (scores + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def read_scores(blocks: Iterable[Block]) -> Iterator[Scores]:
    """Yield the scores in each block of a file with one score per line."""
    for block in blocks:
        try:
            scores = np.array(block.raw_lines(), np.float64)
            if np.isnan(scores).any():
                raise ValueError
        except ValueError:
            raise DataError(
                f"One of the {block.count} lines that begin at {block.place(0)} is not a "
                "number. Expected one score per line. Score the pairs again."
            ) from None
        yield scores
