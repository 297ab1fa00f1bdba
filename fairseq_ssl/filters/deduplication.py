"""Deduplication with hashes of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.options import check, option

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

    Hashes are spread over the whole table, so the table starts small and grows up to `memory`
    bytes. While it grows, the smaller table is in memory, too. When the largest table is full, new
    hashes are not added any more. Lookups still work.

    Args:
        memory: max table size in bytes, at least `MIN_MEMORY`
        start: max initial table size in bytes
    """

    def __init__(self, memory: int, start: int = START) -> None:
        if memory < MIN_MEMORY:
            raise UsageError(
                f"`memory` is {memory} bytes, which is too small. Expected {MIN_MEMORY} or more."
            )
        try:
            np.empty(memory // 8, np.uint64)  # so that a run does not fail halfway
        except (MemoryError, OverflowError, ValueError):
            raise UsageError(
                f"{memory} bytes of memory cannot be allocated. Use a smaller `memory`."
            ) from None
        self._sizes = [memory // 8]
        while 8 * self._sizes[-1] > start:
            self._sizes.append(self._sizes[-1] // GROWTH)
        self.max_count = int(FILLED * self._sizes[0])
        """Max number of hashes."""
        self._table: Hashes = np.zeros(self._sizes.pop(), np.uint64)  # zero marks a free slot
        self.count = 0
        """Number of hashes in the set."""

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes, up to `max_count`. Return True for each hash that was not in the set.

        Of equal hashes in `hashes`, only the first is new. If the set is full and a hash cannot be
        added, all copies of the hash are new.
        """
        keys, first, which = np.unique(
            np.maximum(hashes, np.uint64(1)), return_index=True, return_inverse=True
        )
        while self._sizes and self.count + len(keys) > FILLED * len(self._table):
            smaller, self._table = self._table, np.zeros(self._sizes.pop(), np.uint64)
            for part in np.array_split(smaller, len(smaller) // MOVED + 1):
                moved = part[part != 0]
                self._insert(moved, self._find(moved))
        slots = self._find(keys)
        missing = np.flatnonzero(self._table[slots] != keys)
        missing = missing[np.argsort(first[missing])]
        added, rejected = np.split(missing, [self.max_count - self.count])
        self._insert(keys[added], slots[added])
        self.count += len(added)
        is_rejected = np.zeros(len(keys), dtype=np.bool_)
        is_rejected[rejected] = True
        new: NDArray[np.bool_] = is_rejected[which.reshape(-1)]
        new[first[added]] = True
        return new

    def _find(self, keys: Hashes) -> NDArray[np.int64]:
        """Return the slot of each key, or the free slot at which its probing ends."""
        slots = (keys % np.uint64(len(self._table))).astype(np.int64)
        left = np.arange(len(keys))
        while len(left):
            entries = self._table[slots[left]]
            left = left[(entries != keys[left]) & (entries != 0)]
            slots[left] = (slots[left] + 1) % len(self._table)
        return slots

    def _insert(self, keys: Hashes, slots: NDArray[np.int64]) -> None:
        """Insert new, distinct keys into free slots. Probing starts at `slots`."""
        while len(keys):
            free = self._table[slots] == 0
            self._table[slots[free]] = keys[free]
            left = self._table[slots] != keys  # collisions: only one key gets the slot
            keys, slots = keys[left], (slots[left] + 1) % len(self._table)


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
    by: str = option("pair", "text to compare", choices=BY)

    def __post_init__(self) -> None:
        check(self)
        if self.by == "target" and self.sides < 2:
            raise UsageError("`by` is target, but the text has only one side.")

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
