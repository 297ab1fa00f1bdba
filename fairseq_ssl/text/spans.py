"""Ragged arrays of ids, such as the subwords of words or the tokens of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """Sequences of ids with different lengths, concatenated in one array."""

    ids: NDArray[Any]
    """The concatenated sequences, [ids]."""
    lengths: NDArray[np.int64]
    """Number of ids in each sequence, [sequences]."""

    @classmethod
    def of(cls, runs: Sequence[NDArray[Any]]) -> Spans:
        """Concatenate a list of sequences."""
        ids = np.concatenate(runs) if runs else np.empty(0, np.int64)
        return cls(ids, np.fromiter(map(len, runs), np.int64, len(runs)))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> Ids:
        """End index of each sequence in `ids`, exclusive."""
        return np.cumsum(self.lengths)

    @cached_property
    def starts(self) -> Ids:
        """Start index of each sequence in `ids`."""
        return self.ends - self.lengths

    def select(self, which: Ids) -> Spans:
        """Return the sequences with the indices `which`. Indices may repeat."""
        lengths = self.lengths[which]
        shift = np.repeat(self.starts[which] - (np.cumsum(lengths) - lengths), lengths)
        return Spans(self.ids[shift + np.arange(len(shift))], lengths)

    def concat(self, other: Spans) -> Spans:
        """Return these sequences followed by the sequences of `other`."""
        return Spans(
            np.concatenate([self.ids, other.ids]), np.concatenate([self.lengths, other.lengths])
        )

    def without_last(self) -> Spans:
        """Return each sequence without its last id. No sequence may be empty."""
        return Spans(np.delete(self.ids, self.ends - 1), self.lengths - 1)

    def with_first(self, first: Any) -> Spans:
        """Return each sequence with the id `first` prepended."""
        return Spans(np.insert(self.ids, self.starts, first), self.lengths + 1)

    def with_last(self, last: Any) -> Spans:
        """Return each sequence with the id `last` appended."""
        return Spans(np.insert(self.ids, self.ends, last), self.lengths + 1)

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Split `values`, which contains one value or row per id, into one array per sequence."""
        return np.split(values, self.starts[1:])

    def pad(self, pad: Any, left: bool, min_length: int, multiple: int) -> NDArray[Any]:
        """Return the sequences as a padded array [batch, time].

        Args:
            pad: padding value.
            left: whether to pad on the left instead of on the right.
            min_length: minimum length of the time axis.
            multiple: the length of the time axis is rounded up to a multiple of this number.
        """
        time = max(min_length, int(self.lengths.max(initial=0)))
        time = -(-time // multiple) * multiple
        position, lengths = np.arange(time), self.lengths[:, None]
        rows = np.full((len(self), time), pad, self.ids.dtype)
        rows[position >= time - lengths if left else position < lengths] = self.ids
        return rows
