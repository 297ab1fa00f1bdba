"""Deduplication with hashes of rows, in bounded memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.text.specs import option

Hashes = NDArray[np.uint64]

FILLED = 0.8
"""Max load factor. Lookups are slow in a fuller table."""
MIN_MEMORY = 1024
"""Min table size in bytes."""
START = 2**24
"""Max initial table size in bytes."""
GROWTH = 8
"""Growth factor of the table size."""
MOVED = 2**17
"""Number of slots moved at a time while the table grows."""


class BoundedHashSet:
    """A set of 64-bit hashes with a fixed memory limit (open addressing, linear probing).

    Hashes are spread over all memory pages of a table, so the table starts small and grows up to
    `memory` bytes. While it grows, the smaller table is in memory, too. When the largest table is
    full, new hashes are not added any more. Lookups still work.

    Args:
        memory: max table size in bytes, at least `MIN_MEMORY`
        start: max initial table size in bytes
    """

    def __init__(self, memory: int, start: int = START) -> None:
        if memory < MIN_MEMORY:
            raise UsageError(
                f"`memory` is {memory} bytes, which is too small. Expected {MIN_MEMORY} or more."
            )
        sizes = [memory]
        while sizes[-1] > start:
            sizes.append(sizes[-1] // GROWTH)
        # Reserve all tables now, so that a run cannot fail halfway. The system allocates pages
        # on first use.
        self._larger = [_pages(size) for size in sizes]
        self.max_count = int(FILLED * len(self._larger[0]))
        """Max number of hashes."""
        self._table = self._larger.pop()
        self.count = 0
        """Number of hashes in the set."""

    @property
    def memory(self) -> int:
        """Size of the current table in bytes."""
        return self._table.nbytes

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes, up to `max_count`. Return True for each hash that was not in the set.

        Of equal hashes in `hashes`, only the first is new. If the set is full and a hash cannot be
        added, all copies of the hash are new.
        """
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
        new: NDArray[np.bool_] = is_left[which.reshape(-1)]  # not added: all copies are new
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
        """Return the first slot to probe for each key."""
        return (keys % np.uint64(len(self._table))).astype(np.int64)

    def _search(self, keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the slot of each key, or a free slot, and True where the key was found."""
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
        """Insert new, distinct keys into free slots. Probing starts at `places`."""
        while len(keys):
            free = self._table[places] == 0
            self._table[places[free]] = keys[free]
            left = self._table[places] != keys  # collisions: only one key gets the slot
            keys, places = keys[left], (places[left] + 1) % len(self._table)


def _pages(memory: int) -> Hashes:
    """Return a zeroed array whose pages are allocated on first use."""
    try:
        pages = mmap.mmap(-1, memory, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError):
        raise UsageError(
            f"{memory} bytes of memory cannot be allocated. Use a smaller `memory`."
        ) from None
    if hasattr(mmap, "MADV_DONTFORK"):  # forked workers would keep copies of the pages
        pages.madvise(mmap.MADV_DONTFORK)
    return np.frombuffer(pages, np.uint64, memory // 8)


def memory_for(hashes: int) -> int:
    """Return the table size in bytes that is needed for a number of hashes."""
    return max(MIN_MEMORY, 8 * (int(hashes / FILLED) + 2))


BY = ("pair", "source", "target")


@dataclass(frozen=True)
class DuplicateFilter:
    """Drop duplicate rows and keep the first.

    The score of a row is a 64-bit hash of its bytes. Among 10^9 different rows, the probability
    of a collision is 3%. Whether a row is kept depends on all previous rows in a `BoundedHashSet`,
    so this class is not a `Filter`.
    """

    sides: int
    by: str = option("pair", "text to compare: pair, source or target")

    def __post_init__(self) -> None:
        if self.by not in BY:
            raise UsageError(
                f"The filter duplicates has by={self.by}.{nearest(self.by, BY)} Expected one of "
                f"{', '.join(BY)}."
            )
        if self.by == "target" and self.sides < 2:
            raise UsageError("The filter duplicates has by=target, but the text has only one side.")

    def score(self, rows: Sequence[Row]) -> list[int]:
        """Return a 64-bit hash of the compared text of each row."""
        hashes: list[int] = self.hashes([tuple(map(_encode, row)) for row in rows]).tolist()
        return hashes

    def hashes(self, rows: Sequence[tuple[bytes, ...]]) -> Hashes:
        """Return a 64-bit hash of the compared text of each row of bytes, [rows]."""
        if self.by == "pair":
            texts = map(b"\n".join, rows)
        else:
            texts = map(itemgetter(BY.index(self.by) - 1), rows)
        return np.frombuffer(b"".join(map(_digest, texts)), dtype="<u8").astype(np.uint64)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).digest()
