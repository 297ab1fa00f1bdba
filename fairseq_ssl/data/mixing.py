"""Mixtures of genuine and synthetic data at a fixed ratio, computed from sentence indices.

Sentences are not copied. Memory grows with the number of pairs in an epoch, not in the corpus. Each
pair takes 4 bytes for lengths and 5 bytes for batches. The peak is 11 bytes per pair in the first
epoch and 16 bytes in later epochs, because fairseq keeps the previous epoch's batches until new
batches are formed. The process can retain 2 more bytes per pair. Without a mixture, fairseq needs
40 bytes per pair. The batches are identical to fairseq's.
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

MIX_CHUNK = 1 << 13
"""Number of pairs processed at a time, which limits the size of temporary arrays."""

PairLengths = NDArray[np.integer[Any]]
Indices = NDArray[np.integer[Any]]


def mixture_counts(
    sizes: Sequence[int], weights: Sequence[float], total: int | None = None
) -> list[int]:
    """Return the number of sentences from each data set per epoch, in proportion to the weights.

    Args:
        sizes: size of each data set.
        weights: weight of each data set, above 0.
        total: sentences per epoch (default: the smallest number that includes every sentence).
    """
    if total is None:
        factor = max(size / weight for size, weight in zip(sizes, weights, strict=True))
        return [round(weight * factor) for weight in weights]
    ends = np.rint(np.cumsum(weights) / np.sum(weights) * total).astype(np.int64)
    return [int(count) for count in np.diff(ends, prepend=0)]


class Mixture(torch.utils.data.Dataset[Tensor]):
    """One side of several data sets, with a fixed number of sentences from each per epoch.

    A data set with fewer sentences is repeated in order. From a larger one, each epoch takes evenly
    distributed sentences, so a corpus sorted by year or origin does not have to be shuffled.
    Each epoch continues where the previous epoch ended, so all sentences are used equally often.
    Resumed and uninterrupted runs use the same sentences in each epoch.
    """

    def __init__(
        self, parts: Sequence[Any], counts: Sequence[int], tags: Sequence[int | None]
    ) -> None:
        """Mix data sets.

        Args:
            parts: data sets that contain sentences as ids and provide `sizes`.
            counts: number of sentences from each data set per epoch.
            tags: id to prepend to each sentence from a data set, or None for no tag.
        """
        self.parts = parts
        self.counts = counts
        self.tags = tags
        self.ends = np.cumsum(counts)
        pairs = zip(parts, counts, strict=True)
        self.steps = [1 if len(part) <= count else _stride(len(part)) for part, count in pairs]
        max_length = max(int(np.max(part.sizes)) for part in parts) + 1
        self.dtype = np.uint16 if max_length < 1 << 16 else np.int32
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which starts at 1 and selects the sentences."""
        self.offsets = [
            (epoch - 1) * count % len(part)
            for part, count in zip(self.parts, self.counts, strict=True)
        ]

    @property
    def is_constant(self) -> bool:
        """True if all epochs use the same sentences."""
        pairs = zip(self.parts, self.counts, strict=True)
        return all(count % len(part) == 0 for part, count in pairs)

    @property
    def sizes(self) -> PairLengths:
        """Length of each sentence in the epoch, including its tag."""
        sizes: PairLengths = np.empty(len(self), self.dtype)
        for which, part in enumerate(self.parts):
            part_sizes = sizes[self.ends[which] - self.counts[which] : self.ends[which]]
            for chunk in _chunks(len(part_sizes)):
                positions = np.arange(chunk.start, chunk.stop)
                part_sizes[chunk] = part.sizes[self._index(which, positions)]
            part_sizes += self.tags[which] is not None
        return sizes

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Tensor:
        which = int(np.searchsorted(self.ends, index, "right"))
        part, tag = self.parts[which], self.tags[which]
        position = int(index) - int(self.ends[which]) + self.counts[which]
        sentence: Tensor = part[self._index(which, position)]
        return sentence if tag is None else torch.cat([sentence.new_tensor([tag]), sentence])

    def _index(self, which: int, position: Any) -> Any:
        """Convert epoch positions within data set `which` to indices in that data set."""
        size = len(self.parts[which])
        return (position + self.offsets[which]) % size * self.steps[which] % size


class MixedPairs(LanguagePairDataset):
    """Sentence pairs from a source mixture and a target mixture with the same counts.

    With several data folders, fairseq reads each folder every `folders` epochs.
    """

    def __init__(
        self,
        source: Mixture,
        source_dictionary: Any,
        target: Mixture,
        target_dictionary: Any,
        folders: int = 1,
        **options: Any,
    ) -> None:
        # fairseq would copy the lengths twice, so pass empty arrays.
        empty = np.empty(0, np.uint16)
        sides = (source, empty, source_dictionary, target, empty, target_dictionary)
        super().__init__(*sides, **options)
        self.folders = folders
        self._empty = empty
        self._epoch: int | None = None
        self._read_sizes()

    def _read_sizes(self) -> None:
        self._drop_sizes()
        self.src_sizes, self.tgt_sizes = self.src.sizes, self.tgt.sizes

    def _drop_sizes(self) -> None:
        self.src_sizes = self.tgt_sizes = self._empty

    @property
    def sizes(self) -> NDArray[Any]:
        """Lengths of both sides [pairs, 2], computed at each access to save memory."""
        return np.vstack((self.src_sizes, self.tgt_sizes)).T

    @sizes.setter
    def sizes(self, _: object) -> None:
        """Ignore fairseq's assignment. The lengths are stored in `src_sizes` and `tgt_sizes`."""

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """True if fairseq may reuse its batches in the next epoch."""
        return bool(self.src.is_constant)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which selects the pairs."""
        super().set_epoch(epoch)
        # fairseq sets each epoch several times.
        if epoch != self._epoch and not self.src.is_constant:
            self._epoch = epoch
            for mixture in (self.src, self.tgt):
                mixture.set_epoch((epoch - 1) // self.folders + 1)
            self._read_sizes()

    def ordered_indices(self) -> Indices:
        """Return the indices sorted by source length, then target length, as in fairseq."""
        dtype = np.int32 if len(self) < 1 << 31 else np.int64
        indices: Indices = np.arange(len(self), dtype=dtype)
        if self.shuffle:
            np.random.shuffle(indices)  # fairseq seeds the global generator
        # Sorting needs the lengths of only one side at a time. Reading lengths again is fast.
        self._drop_sizes()
        for mixture in (self.tgt, self.src):
            indices = _sorted_by(mixture.sizes, indices)
        self._read_sizes()
        return indices

    def filter_indices_by_size(self, indices: Indices, max_sizes: Any) -> tuple[Indices, Indices]:
        """Return the indices of pairs within `max_sizes`, and the indices of the other pairs.

        To save memory, the array `indices` is overwritten, and the first result is a view of it.
        """
        ignored = [np.empty(0, indices.dtype)]
        end = 0
        for chunk in _chunks(len(indices)):
            part = indices[chunk]
            kept, too_long = super().filter_indices_by_size(part, max_sizes)
            ignored.append(np.asarray(too_long, indices.dtype))
            indices[end : end + len(kept)] = kept
            end += len(kept)
        return indices[:end], np.concatenate(ignored)

    def batch_by_size(self, indices: Indices, *args: Any, **options: Any) -> list[Indices]:
        """Form the same batches as fairseq, but from one chunk of pairs at a time."""
        batches: list[Indices] = []
        begin, chunk = 0, MIX_CHUNK
        while begin < len(indices):
            end = min(begin + chunk, len(indices))
            part = indices[begin:end].astype(np.int64)
            lengths = [len(batch) for batch in super().batch_by_size(part, *args, **options)]
            # The next pairs could change the last two batches of a chunk, so form them again.
            complete = lengths if end == len(indices) else lengths[:-2]
            for length in complete:
                batches.append(indices[begin : begin + length])
                begin += length
            if end == len(indices):
                break
            chunk = MIX_CHUNK if complete else 2 * chunk
        return batches


def _stride(size: int) -> int:
    """Return a step coprime to `size` whose multiples modulo `size` are evenly distributed."""
    step = max(1, round(size * (5**0.5 - 1) / 2))
    while gcd(step, size) > 1:
        step += 1
    return step


def _chunks(count: int) -> Iterator[slice]:
    for begin in range(0, count, MIX_CHUNK):
        yield slice(begin, min(begin + MIX_CHUNK, count))


def _sorted_by(sizes: PairLengths, indices: Indices) -> Indices:
    """Return `indices` sorted by sentence length. Equal lengths keep their order."""
    ends = np.cumsum(_histogram(sizes))
    begins = np.concatenate(([0], ends[:-1]))
    ordered = np.empty_like(indices)
    for chunk in _chunks(len(indices)):
        part = indices[chunk]
        lengths = sizes[part]
        order = np.argsort(lengths, kind="stable")
        lengths = lengths[order]
        values, first, counts = np.unique(lengths, return_index=True, return_counts=True)
        ranks = np.arange(len(part)) - np.repeat(first, counts)
        ordered[begins[lengths] + ranks] = part[order]
        begins[values] += counts
    return ordered


def _histogram(sizes: PairLengths) -> NDArray[np.int64]:
    """Return the number of sentences of each length, without copying all lengths."""
    counts = np.zeros(int(sizes.max()) + 1, np.int64)
    for chunk in _chunks(len(sizes)):
        counts += np.bincount(sizes[chunk], minlength=len(counts))
    return counts
