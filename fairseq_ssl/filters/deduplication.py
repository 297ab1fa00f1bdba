"""Duplicates, found by hashes of rows in bounded memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.text.specs import option

Hashes = NDArray[np.uint64]

FILLED = 0.8
"""Maximum load of the table: with more, searches are slow."""
MIN_MEMORY = 1024
"""Minimum bytes of a table."""
START = 2**24
"""Bytes of the first, small table."""
GROWTH = 8
"""Size of a table relative to the previous one."""
MOVED = 2**17
"""Slots that are moved to a larger table at a time."""


class BoundedHashSet:
    """A table of 64-bit hashes with open addressing and linear probing.

    The first insertions touch every page of a table, so it starts small and grows up to `memory`
    bytes. While it grows, the smaller table is in memory too. When the last table is full, new
    hashes are no longer added; hashes in it are still found.

    Args:
        memory: bytes of the last table, at least `MIN_MEMORY`
        start: max bytes of the first table
    """

    def __init__(self, memory: int, start: int = START) -> None:
        if memory < MIN_MEMORY:
            raise UsageError(
                f"A table of {memory} bytes is too small. Expected {MIN_MEMORY} bytes or more."
            )
        sizes = [memory]
        while sizes[-1] > start:
            sizes.append(sizes[-1] // GROWTH)
        # Reserve all tables now, so that a run does not fail halfway. Pages take no memory
        # before they are used.
        self._larger = [_pages(size) for size in sizes]
        self.max_count = int(FILLED * len(self._larger[0]))
        """Max hashes in the table."""
        self._table = self._larger.pop()
        self.count = 0
        """Hashes in the table."""

    @property
    def memory(self) -> int:
        """Bytes of the table in use."""
        return self._table.nbytes

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which hashes are new, and add them while there is room."""
        # Zero marks a free slot.
        keys, first, which = np.unique(
            np.maximum(hashes, np.uint64(1)), return_index=True, return_inverse=True
        )
        while self._larger and self.count + len(keys) > FILLED * len(self._table):
            self._grow()
        places, found = self._search(keys)
        fresh = np.flatnonzero(~found)
        fresh = fresh[np.argsort(first[fresh])]
        kept, left = np.split(fresh, [self.max_count - self.count])
        self._insert(keys[kept], places[kept])
        self.count += len(kept)
        is_left = np.zeros(len(keys), dtype=np.bool_)
        is_left[left] = True
        new: NDArray[np.bool_] = is_left[which.reshape(-1)]  # not added, so each counts as new
        new[first[kept]] = True
        return new

    def _grow(self) -> None:
        """Move all hashes to the next larger table."""
        smaller, self._table = self._table, self._larger.pop()
        for begin in range(0, len(smaller), MOVED):
            keys = smaller[begin : begin + MOVED]
            keys = keys[keys != 0]
            self._insert(keys, self._homes(keys))

    def _homes(self, keys: Hashes) -> NDArray[np.int64]:
        """Return the slot where the search for each key begins."""
        return (keys % np.uint64(len(self._table))).astype(np.int64)

    def _search(self, keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the slot of each key, or a free slot for it, and whether the key is there."""
        places = self._homes(keys)
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
        """Insert different new keys into free slots, from `places` on."""
        while len(keys):
            free = self._table[places] == 0
            self._table[places[free]] = keys[free]
            left = self._table[places] != keys  # of several keys for one slot, one gets it
            keys, places = keys[left], (places[left] + 1) % len(self._table)


def _pages(memory: int) -> Hashes:
    """Reserve zeroed memory. The system allocates each page on first use."""
    try:
        pages = mmap.mmap(-1, memory, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError):
        raise UsageError(f"{memory} bytes of memory cannot be allocated. Choose less.") from None
    if hasattr(mmap, "MADV_DONTFORK"):  # workers would keep old pages in memory
        pages.madvise(mmap.MADV_DONTFORK)
    return np.frombuffer(pages, np.uint64, memory // 8)


def memory_for(hashes: int) -> int:
    """Return the bytes of a table for this number of hashes."""
    return max(MIN_MEMORY, 8 * (int(hashes / FILLED) + 2))


BY = ("pair", "source", "target")


@dataclass(frozen=True)
class DuplicateFilter:
    """Drops duplicates: of equal rows, the first is kept.

    The score of a row is a 64-bit hash of its bytes. Among 10^9 different rows, the probability
    of a collision is 3%. A `BoundedHashSet` that has seen all previous rows decides which rows
    are kept, so this is not a `Filter`.
    """

    sides: int
    by: str = option("pair", "what is compared: pair, source or target")

    def __post_init__(self) -> None:
        if self.by not in BY:
            raise UsageError(
                f"The filter duplicates has by={self.by}.{nearest(self.by, BY)} Expected one of "
                f"{', '.join(BY)}."
            )
        if self.by == "target" and self.sides < 2:
            raise UsageError("The filter duplicates has by=target, but there is only a source.")

    def score(self, rows: Sequence[Row]) -> list[int]:
        """Return the hash of each row."""
        side = slice(None) if self.by == "pair" else slice(BY.index(self.by) - 1, BY.index(self.by))
        return [_hash("\n".join(row[side])) for row in rows]


def _hash(text: str) -> int:
    raw = text.encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")
