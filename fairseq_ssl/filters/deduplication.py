"""Deduplication with hashes of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, import_optional
from fairseq_ssl.options import check, option

Hashes = NDArray[np.uint64]
Integers = NDArray[np.uint32]

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
        self.rejected = 0
        """Number of hashes that were not added because the set was full."""

    def add_rows(self, keys: Hashes) -> NDArray[np.bool_]:
        """Add the first halves of the keys of rows. Return True for each row with new keys only.

        Args:
            keys: result of `DuplicateFilter.keys`, [rows, keys, 2]
        """
        is_new = self.add(keys[..., 0].reshape(-1)).reshape(keys.shape[:2])
        return np.asarray(is_new.all(axis=1))

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
        self.rejected += int(new.sum())
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
LENGTH = 4
"""Number of characters of an n-gram of near-duplicates."""
PERMUTATIONS = 128
"""Number of hash functions of MinHash."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FMIX = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))
"""Shifts and multipliers of the finalizer of MurmurHash3 with 32 bits."""


@dataclass(frozen=True)
class DuplicateFilter:
    """Drop duplicate rows and keep the first.

    A row has one key, or with `near` several. It is dropped if an earlier row has one of its keys,
    whether or not the earlier row is dropped. The decision depends on all earlier rows, so this
    class is not a `Filter`.

    A key is a BLAKE2 hash of 16 bytes. Without `near`, it is the hash of the bytes of the row. With
    `near`, each key is the hash of a band of the row's MinHash signature: the minima of some hash
    functions over its character n-grams in lower case. The probability that two rows have a common
    band rises steeply near the similarity `near`. N-grams of characters are used because a sentence
    has few words, some of which punctuation changes, and because some languages do not separate
    words.
    """

    sides: int
    by: str = option("pair", "text to compare", choices=BY)
    near: float = option(
        0.0,
        "min Jaccard similarity of the character 4-grams of near-duplicates; 0 for equal rows only",
        low=0,
        high=0.98,  # datasketch needs two bands
    )

    def __post_init__(self) -> None:
        check(self)
        if self.by == "target" and self.sides < 2:
            raise UsageError("`by` is target, but the text has only one side.")
        if self.near:
            _min_hash(self.near)

    def keys(self, rows: Sequence[tuple[bytes, ...]]) -> Hashes:
        """Return the keys of the compared text of each row of bytes, [rows, keys, 2].

        A `BoundedHashSet` needs only the first half of each key. Among 10^9 different keys, the
        probability that two halves are equal is 3%.
        """
        texts: Iterable[bytes]
        if self.by == "pair":
            texts = map(b"\n".join, rows)
        else:
            texts = map(itemgetter(BY.index(self.by) - 1), rows)
        count = 1
        if self.near:
            count, size, permutations = _min_hash(self.near)
            texts = _bands(_signatures(list(texts), permutations), count, size)
        data = b"".join([blake2b(text, digest_size=16).digest() for text in texts])
        return np.frombuffer(data, "<u8").astype(np.uint64).reshape(len(rows), count, 2)


@lru_cache
def _min_hash(near: float) -> tuple[int, int, Integers]:
    """Return the number of bands, the size of a band, and the permutations, [2, functions]."""
    datasketch = import_optional("datasketch", "Search for near-duplicates", "scale")
    index = datasketch.MinHashLSH(threshold=near, num_perm=PERMUTATIONS)
    used = datasketch.MinHash(num_perm=PERMUTATIONS, seed=1, scheme="affine32").permutations
    return index.b, index.r, used[:, : index.b * index.r]


def _signatures(texts: Sequence[bytes], permutations: Integers) -> Integers:
    """Return the MinHash signature of each text, [texts, functions].

    The values are those of datasketch's `MinHash` objects, one of which for each text would take
    seven times as long.
    """
    lines = [text.decode("utf-8", "surrogateescape").lower() for text in texts]
    result = np.empty((permutations.shape[1], len(lines)), "<u4")
    if not lines:
        return result.T
    gap = "\n" * (LENGTH - 1)
    joined = gap.join(["", *lines, ""]).encode("utf-32-le", "surrogatepass")
    hashes = _hash_ngrams(np.frombuffer(joined, "<u4"))
    # The n-grams of a line begin at its characters and at the newline before the line.
    lengths = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
    starts = np.cumsum(lengths + LENGTH - 2) - lengths
    bounds = np.stack([starts, starts + lengths], axis=1).reshape(-1)[:-1]
    for minima, factor, summand in zip(result, *permutations, strict=True):
        minima[:] = np.minimum.reduceat(hashes * factor + summand, bounds)[::2]
    return result.T


def _hash_ngrams(codes: Integers) -> Integers:
    """Return a 32-bit hash of each n-gram of Unicode code points, mixed as by datasketch."""
    states = np.zeros(len(codes) - LENGTH + 1, np.uint64)
    for first in range(LENGTH):
        states += codes[first : first + len(states)]
        states *= GOLDEN
        states ^= states >> np.uint64(32)
    hashes = states.astype(np.uint32)
    for shift, factor in FMIX:
        hashes ^= hashes >> np.uint32(shift)
        hashes *= np.uint32(factor)
    return hashes


def _bands(signatures: Integers, count: int, size: int) -> Iterator[bytes]:
    """Yield the bands of each signature as bytes, which begin with the index of the band."""
    bands = np.empty((len(signatures), count, size + 1), "<u4")
    bands[:, :, 0] = np.arange(count)
    bands[:, :, 1:] = signatures.reshape(len(signatures), count, size)
    data, width = bands.tobytes(), 4 * (size + 1)
    return (data[start : start + width] for start in range(0, len(data), width))


def encode_line(text: str) -> bytes:
    """Return the bytes of a line in memory, which may have surrogates."""
    return text.encode("utf-8", "surrogatepass")
