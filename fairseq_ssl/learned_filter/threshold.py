"""The k-th largest of very many numbers, without holding or sorting them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

BITS = 16
"""Read of each number in a pass; four passes know all 64."""
SIGN = np.uint64(1 << 63)

Numbers = Callable[[], Iterable[NDArray[np.float64]]]
"""Yields the same numbers, in arrays, as often as it is called."""


def kth_largest(numbers: Numbers, k: int) -> tuple[float, int]:
    """Return the k-th largest number, counted from 1, and how many of its equals are in the k.

    Each pass counts, among numbers that begin with the bits known so far, the next bits.
    """
    known, left = 0, k
    for shift in range(64 - BITS, -1, -BITS):
        counts = np.zeros(2**BITS, np.int64)
        for some in numbers():
            keys = _keys(some)
            if shift + BITS < 64:
                keys = keys[keys >> np.uint64(shift + BITS) == np.uint64(known)]
            found = (keys >> np.uint64(shift)) & np.uint64(2**BITS - 1)
            counts += np.bincount(found.astype(np.intp), minlength=2**BITS)
        above = np.cumsum(counts[::-1])
        assert above[-1] >= left, "k is more than there are numbers"
        place = int(np.searchsorted(above, left))
        left -= int(above[place] - counts[::-1][place])
        known = (known << BITS) | (2**BITS - 1 - place)
    return _number(known), left


def _keys(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return whole numbers in the same order; -0.0 is as 0.0."""
    bits = (numbers + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _number(key: int) -> float:
    bits = np.array([key], np.uint64)
    bits = np.where(bits & SIGN, bits ^ SIGN, ~bits)
    return float(bits.view(np.float64)[0])
