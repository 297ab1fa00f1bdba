"""Genuine and synthetic data at a given ratio, by arithmetic on indices of sentences.

No sentence is copied. Memory depends on the pairs of an epoch, not on the corpus: lengths take 4
bytes a pair, the batches 5, and forming them 13 at peak (fairseq's own way takes 40). The batches
are those that fairseq forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from numpy.typing import NDArray
from torch import Tensor

MIX_CHUNK = 1 << 18
"""Number of pairs that are handled at a time: temporary arrays have this size."""

PairLengths = NDArray[np.integer[Any]]
Indices = NDArray[np.integer[Any]]


def portions(sizes: Sequence[int], weights: Sequence[float], total: int | None = None) -> list[int]:
    """Return how many sentences of each data set an epoch has, at the ratio of the weights.

    Args:
        sizes: of the data sets
        weights: of the data sets, above 0
        total: of an epoch (default: as few as hold each data set once, the others up-sampled)
    """
    if total is None:
        times = max(size / weight for size, weight in zip(sizes, weights, strict=True))
        return [round(weight * times) for weight in weights]
    ends = np.rint(np.cumsum(weights) / np.sum(weights) * total).astype(np.int64)
    return [int(portion) for portion in np.diff(ends, prepend=0)]


class Mixture(torch.utils.data.Dataset[Tensor]):
    """One side of several data sets, as many sentences of each as its portion of an epoch.

    A data set that is smaller than its portion is repeated in its order. Of a larger one each epoch
    takes sentences from all parts of it, so that a corpus that is sorted by year or by origin need
    not be shuffled. An epoch begins where the last one ended: no sentence is seen a second time
    more often than another, and an epoch is the same whether or not the training was resumed.
    """

    def __init__(
        self, parts: Sequence[Any], counts: Sequence[int], tags: Sequence[int | None]
    ) -> None:
        """Set what is mixed.

        Args:
            parts: data sets of sentences of ids, with their `sizes`
            counts: the portion of each
            tags: the symbol to put before each sentence of it
        """
        self.parts = parts
        self.counts = counts
        self.tags = tags
        self.ends = np.cumsum(counts)
        pairs = zip(parts, counts, strict=True)
        self.steps = [1 if len(part) <= count else _stride(len(part)) for part, count in pairs]
        longest = max(int(np.max(part.sizes)) for part in parts) + 1
        self.dtype = np.uint16 if longest < 1 << 16 else np.int32
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Go to the sentences of an epoch, from 1."""
        self.begun = [
            (epoch - 1) * count % len(part)
            for part, count in zip(self.parts, self.counts, strict=True)
        ]

    @property
    def is_constant(self) -> bool:
        """Whether all epochs have the same sentences."""
        pairs = zip(self.parts, self.counts, strict=True)
        return all(count % len(part) == 0 for part, count in pairs)

    @property
    def sizes(self) -> PairLengths:
        """The length of each sentence of the epoch, tags included."""
        sizes: PairLengths = np.empty(len(self), self.dtype)
        for number, part in enumerate(self.parts):
            portion = sizes[self.ends[number] - self.counts[number] : self.ends[number]]
            for chunk in _chunks(len(portion)):
                places = np.arange(chunk.start, chunk.stop)
                portion[chunk] = part.sizes[self._index(number, places)]
            portion += self.tags[number] is not None
        return sizes

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Tensor:
        number = int(np.searchsorted(self.ends, index, "right"))
        part, tag = self.parts[number], self.tags[number]
        place = int(index) - int(self.ends[number]) + self.counts[number]
        sentence: Tensor = part[self._index(number, place)]
        return sentence if tag is None else torch.cat([sentence.new_tensor([tag]), sentence])

    def _index(self, number: int, place: Any) -> Any:
        """Return the index in a data set of one or more places in its portion."""
        size = len(self.parts[number])
        return (place + self.begun[number]) % size * self.steps[number] % size


class MixedPairs(LanguagePairDataset):
    """Pairs of two mixtures that are alike but for their tags."""

    def __init__(
        self,
        source: Mixture,
        source_dictionary: Any,
        target: Mixture,
        target_dictionary: Any,
        **options: Any,
    ) -> None:
        # fairseq copies lengths twice: it gets none here
        none = np.empty(0, np.uint16)
        sides = (source, none, source_dictionary, target, none, target_dictionary)
        super().__init__(*sides, **options)
        self._read_sizes()

    def _read_sizes(self) -> None:
        self.src_sizes, self.tgt_sizes = self.src.sizes, self.tgt.sizes

    @property
    def sizes(self) -> NDArray[Any]:
        """The lengths of both sides, [pairs, 2], computed at each access."""
        return np.vstack((self.src_sizes, self.tgt_sizes)).T

    @sizes.setter
    def sizes(self, _: object) -> None:
        """Ignore what fairseq sets: the lengths of the two sides are kept once."""

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether fairseq may keep its batches for the next epoch."""
        return bool(self.src.is_constant)

    def set_epoch(self, epoch: int) -> None:
        """Go to the pairs of an epoch."""
        super().set_epoch(epoch)
        if not self.src.is_constant:
            for mixture in (self.src, self.tgt):
                mixture.set_epoch(epoch)
            self._read_sizes()

    def ordered_indices(self) -> Indices:
        """Return the pairs by source length, then target length, then at random, as fairseq."""
        dtype = np.int32 if len(self) < 1 << 31 else np.int64
        indices: Indices = np.arange(len(self), dtype=dtype)
        if self.shuffle:
            np.random.shuffle(indices)  # by the generator that fairseq seeds
        for sizes in (self.tgt_sizes, self.src_sizes):
            indices = _sorted_by(sizes, indices)
        return indices

    def filter_indices_by_size(self, indices: Indices, max_sizes: Any) -> tuple[Indices, list[int]]:
        """Return the pairs that are not too long, and the others."""
        found = [
            super(MixedPairs, self).filter_indices_by_size(indices[chunk], max_sizes)[1]
            for chunk in _chunks(len(indices))
        ]
        ignored = [index for chunk in found for index in chunk]
        if ignored:
            kept = np.ones(len(self), bool)
            kept[ignored] = False
            indices = indices[kept[indices]]
        return indices, ignored

    def batch_by_size(self, indices: Indices, *args: Any, **options: Any) -> list[Indices]:
        """Return the batches that fairseq forms, of a part of the pairs at a time."""
        batches: list[Indices] = []
        begin, chunk = 0, MIX_CHUNK
        while begin < len(indices):
            end = min(begin + chunk, len(indices))
            part = indices[begin:end].astype(np.int64)
            lengths = [len(batch) for batch in super().batch_by_size(part, *args, **options)]
            # more pairs could change the last two batches: one that is filled, and what is over
            complete = lengths if end == len(indices) else lengths[:-2]
            for length in complete:
                batches.append(indices[begin : begin + length])
                begin += length
            if end == len(indices):
                break
            chunk = MIX_CHUNK if complete else 2 * chunk
        return batches


def _stride(size: int) -> int:
    """Return a step through all of `size` sentences whose first n are spread evenly, for any n."""
    step = max(1, round(size * (5**0.5 - 1) / 2))
    while gcd(step, size) > 1:
        step += 1
    return step


def _chunks(count: int) -> Iterator[slice]:
    for begin in range(0, count, MIX_CHUNK):
        yield slice(begin, min(begin + MIX_CHUNK, count))


def _sorted_by(sizes: PairLengths, indices: Indices) -> Indices:
    """Return the indices by the length of their sentences; equal ones keep their order."""
    ends = np.cumsum(_histogram(sizes))
    begins = np.concatenate(([0], ends[:-1]))
    ordered = np.empty_like(indices)
    for chunk in _chunks(len(indices)):
        part = indices[chunk]
        lengths = sizes[part]
        order = np.argsort(lengths, kind="stable")
        lengths = lengths[order]
        found, first, counts = np.unique(lengths, return_index=True, return_counts=True)
        ranks = np.arange(len(part)) - np.repeat(first, counts)
        ordered[begins[lengths] + ranks] = part[order]
        begins[found] += counts
    return ordered


def _histogram(sizes: PairLengths) -> NDArray[np.int64]:
    """Return how many sentences have each length, without a copy of all lengths."""
    counts = np.zeros(int(sizes.max()) + 1, np.int64)
    for chunk in _chunks(len(sizes)):
        counts += np.bincount(sizes[chunk], minlength=len(counts))
    return counts
