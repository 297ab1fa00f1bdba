"""Deduplication of equal rows with hashes, and of similar rows with MinHash."""

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

MERGED = 8
"""Min length ratio of consecutive arrays in a `HashSet`. Arrays below this ratio are merged."""


class HashSet:
    """A set of 64-bit hashes, stored in sorted arrays of decreasing length.

    A hash takes 8 bytes of memory, and up to three times as much while arrays are merged.
    """

    def __init__(self) -> None:
        self._arrays: list[Hashes] = []

    def add_rows(self, keys: Hashes) -> NDArray[np.bool_]:
        """Add the first half of each key. Return a mask of the rows whose keys are all new, [rows].

        Args:
            keys: result of `DuplicateFilter.keys`, [rows, keys, 2]
        """
        is_new = self.add(keys[..., 0].reshape(-1)).reshape(keys.shape[:2])
        return np.asarray(is_new.all(axis=1))

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes. Return a mask of new hashes. Of equal hashes, only the first is marked."""
        added, first = np.unique(hashes, return_index=True)
        for array in self._arrays:
            place = np.searchsorted(array, added)
            is_absent = array.take(place, mode="clip") != added
            added, first = added[is_absent], first[is_absent]
        is_new = np.zeros(len(hashes), np.bool_)
        is_new[first] = True
        while self._arrays and len(self._arrays[-1]) < MERGED * len(added):
            added = np.concatenate([self._arrays.pop(), added])
            added.sort(kind="stable")  # a stable sort merges sorted arrays
        if len(added):
            self._arrays.append(added)
        return is_new


BY = ("pair", "source", "target")
LENGTH = 4
"""Number of characters in an n-gram, for near-duplicates."""
PERMUTATIONS = 128
"""Maximum number of MinHash permutations (hash functions) per signature."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FMIX = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))
"""Shifts and multipliers of the 32-bit finalizer of MurmurHash3."""


@dataclass(frozen=True)
class DuplicateFilter:
    """Drop all but the first of duplicate rows.

    A row has one key, or several keys if `near` is set. It is dropped if it shares a key with an
    earlier row, even if the earlier row is dropped. The decision depends on all earlier rows, so
    this class is not a `Filter`.

    A key is a BLAKE2 hash of 16 bytes. Without `near`, it is the hash of the row's text. With
    `near`, each key is the hash of a band of the row's MinHash signature. A band contains the
    minima of several hash functions over the row's lowercase character n-grams. The
    probability that two rows share a band rises steeply near the similarity `near`. Character
    n-grams are used because a sentence has few words, punctuation changes words, and some languages
    do not separate words.
    """

    sides: int
    by: str = option("pair", "text to compare", choices=BY)
    near: float = option(
        0.0,
        "min Jaccard similarity of the character 4-grams of near-duplicates; with 0, only "
        "identical rows are dropped",
        low=0,
        high=0.98,  # datasketch needs two bands
    )

    def __post_init__(self) -> None:
        check(self)
        if self.by == "target" and self.sides < 2:
            raise UsageError("`by` is target, but the text has only one side. Set it to source.")
        if self.near:
            _min_hash(self.near)

    def keys(self, rows: Sequence[tuple[bytes, ...]]) -> Hashes:
        """Return the keys of each row, [rows, keys, 2]. Only the text that `by` selects is used.

        A `HashSet` stores only the first half of each key. Among 10^9 different keys, the
        probability that the first halves of any two keys are equal is 3%.
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
    """Return the number of bands, the band size and the permutation parameters, [2, functions]."""
    datasketch = import_optional("datasketch", "Search for near-duplicates", "scale")
    index = datasketch.MinHashLSH(threshold=near, num_perm=PERMUTATIONS)
    used = datasketch.MinHash(num_perm=PERMUTATIONS, seed=1, scheme="affine32").permutations
    return index.b, index.r, used[:, : index.b * index.r]


def _signatures(texts: Sequence[bytes], permutations: Integers) -> Integers:
    """Return the MinHash signature of each text, [texts, functions].

    The values are the same as with one `datasketch.MinHash` object per text, which would take seven
    times as long.
    """
    lines = [text.decode("utf-8", "surrogateescape").lower() for text in texts]
    result = np.empty((permutations.shape[1], len(lines)), "<u4")
    if not lines:
        return result.T
    gap = "\n" * (LENGTH - 1)
    joined = gap.join(["", *lines, ""]).encode("utf-32-le", "surrogatepass")
    hashes = _hash_ngrams(np.frombuffer(joined, "<u4"))
    # N-grams begin at each character of a line, and at the newline before it.
    lengths = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
    starts = np.cumsum(lengths + LENGTH - 2) - lengths
    bounds = np.stack([starts, starts + lengths], axis=1).reshape(-1)[:-1]
    for minima, factor, summand in zip(result, *permutations, strict=True):
        minima[:] = np.minimum.reduceat(hashes * factor + summand, bounds)[::2]
    return result.T


def _hash_ngrams(codes: Integers) -> Integers:
    """Return a 32-bit hash of each n-gram of Unicode code points, mixed as in datasketch."""
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
    """Yield each band of each signature as bytes, which start with the band index."""
    bands = np.empty((len(signatures), count, size + 1), "<u4")
    bands[:, :, 0] = np.arange(count)
    bands[:, :, 1:] = signatures.reshape(len(signatures), count, size)
    data, width = bands.tobytes(), 4 * (size + 1)
    return (data[start : start + width] for start in range(0, len(data), width))


def encode_line(text: str) -> bytes:
    """Encode a line, which may contain surrogates, as UTF-8."""
    return text.encode("utf-8", "surrogatepass")
