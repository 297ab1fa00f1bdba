"""Genuine and synthetic data at a wanted ratio, by arithmetic on numbers of sentences.

No sentence is copied and no list of numbers is kept: a corpus of hundreds of millions of pairs
costs what one epoch of it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.data.pair_sides import replace_side


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

    Each is gone through in its order, again and again, and an epoch begins where the last one
    ended: no sentence is seen a second time more often than another, and an epoch is the same
    whether or not the training was broken off before it.
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
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Go to the sentences of an epoch, from 1."""
        self.begun = [
            (epoch - 1) * count % len(part)
            for part, count in zip(self.parts, self.counts, strict=True)
        ]

    @property
    def stands_still(self) -> bool:
        """Whether all epochs have the same sentences."""
        pairs = zip(self.parts, self.counts, strict=True)
        return all(count % len(part) == 0 for part, count in pairs)

    @property
    def sizes(self) -> NDArray[np.int32]:
        """The length of each sentence of the epoch, tags included."""
        sizes = np.empty(len(self), np.int32)
        for number, part in enumerate(self.parts):
            portion = sizes[self.ends[number] - self.counts[number] : self.ends[number]]
            _fill(portion, part.sizes, self.begun[number])
            portion += self.tags[number] is not None
        return sizes

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Tensor:
        number = int(np.searchsorted(self.ends, index, "right"))
        part, tag = self.parts[number], self.tags[number]
        place = index - self.ends[number] + self.counts[number] + self.begun[number]
        sentence: Tensor = part[int(place % len(part))]
        return sentence if tag is None else torch.cat([sentence.new_tensor([tag]), sentence])


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
        sides = (source, source.sizes, source_dictionary, target, target.sizes, target_dictionary)
        super().__init__(*sides, **options)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether fairseq may keep its batches for the next epoch."""
        return bool(self.src.stands_still)

    def set_epoch(self, epoch: int) -> None:
        """Go to the pairs of an epoch."""
        super().set_epoch(epoch)
        if self.src.stands_still:
            return
        for side, mixture in (("src", self.src), ("tgt", self.tgt)):
            mixture.set_epoch(epoch)
            replace_side(self, side, mixture, mixture.sizes)


def _fill(portion: NDArray[np.int32], sizes: NDArray[Any], begin: int) -> None:
    """Write sizes from `begin` on, as often from the start as it takes."""
    done = 0
    while done < len(portion):
        piece = sizes[begin : begin + len(portion) - done]
        portion[done : done + len(piece)] = piece
        done, begin = done + len(piece), 0
