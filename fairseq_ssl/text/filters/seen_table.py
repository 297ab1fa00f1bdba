"""Which of many hashes were seen before, in memory that is set beforehand."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError

Hashes = NDArray[np.uint64]

FILLED = 0.8
"""Share of the table that is used at most: with more, searches grow long."""
LEAST = 1024
"""Bytes that a table has at least."""


class SeenTable:
    """A table of 64-bit hashes with open addressing: a taken place leads on to the next.

    When it is full, what is new is no longer kept; what is in it is still found.
    """

    def __init__(self, memory: int) -> None:
        """Take so many bytes, of which the system gives each page when it is first used."""
        if memory < LEAST:
            raise UsageError(f"A table of {memory} bytes is too small; expected {LEAST} or more.")
        try:
            pages = mmap.mmap(-1, memory, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError):
            raise UsageError(f"There is no memory of {memory} bytes. Choose less.") from None
        if hasattr(mmap, "MADV_DONTFORK"):  # workers would keep old pages of it in memory
            pages.madvise(mmap.MADV_DONTFORK)
        self._table = np.frombuffer(pages, np.uint64, memory // 8)
        self.most = int(FILLED * len(self._table))
        """Hashes that it can keep."""
        self.count = 0
        """Hashes that it keeps."""

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Tell which hashes are new, and keep those as long as there is room."""
        # Zero marks a free place.
        keys, first, which = np.unique(
            np.maximum(hashes, np.uint64(1)), return_index=True, return_inverse=True
        )
        places, found = self._search(keys)
        fresh = np.flatnonzero(~found)
        fresh = fresh[np.argsort(first[fresh])]
        kept, left = np.split(fresh, [self.most - self.count])
        self._insert(keys[kept], places[kept])
        self.count += len(kept)
        is_left = np.zeros(len(keys), dtype=np.bool_)
        is_left[left] = True
        new: NDArray[np.bool_] = is_left[which.reshape(-1)]  # of these every one, as none is kept
        new[first[kept]] = True
        return new

    def _search(self, keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return for each key its place, or the free one that it would take, and which it is."""
        places = (keys % np.uint64(len(self._table))).astype(np.int64)
        found = np.zeros(len(keys), dtype=np.bool_)
        left = np.arange(len(keys))
        while len(left):
            there = self._table[places[left]]
            same = there == keys[left]
            found[left[same]] = True
            left = left[~same & (there != 0)]
            places[left] = (places[left] + 1) % len(self._table)
        return places, found

    def _insert(self, keys: Hashes, places: NDArray[np.int64]) -> None:
        """Put different keys, none of which is there, into free places from `places` on."""
        while len(keys):
            free = self._table[places] == 0
            self._table[places[free]] = keys[free]
            left = self._table[places] != keys  # of those that want the same place one gets it
            keys, places = keys[left], (places[left] + 1) % len(self._table)


def memory_for(hashes: int) -> int:
    """Return the bytes that a table for so many hashes takes."""
    return max(LEAST, 8 * (int(hashes / FILLED) + 2))
