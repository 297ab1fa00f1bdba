"""Runs of ids: the subwords of a word, or the tokens of a line; many of them end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.noise.batch import GOLDEN, Random

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """Runs of ids, laid end to end."""

    ids: NDArray[Any]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, runs: Sequence[NDArray[Any]]) -> Spans:
        """Lay runs end to end."""
        ids = np.concatenate(runs) if runs else np.empty(0, np.int64)
        return cls(ids, np.fromiter(map(len, runs), np.int64, len(runs)))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> Ids:
        """Where each run ends."""
        return np.cumsum(self.lengths)

    @cached_property
    def starts(self) -> Ids:
        """Where each run begins."""
        return self.ends - self.lengths

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """A number for each run: of the same ids the same, of others, but for chance, another.

        Each id has a random number of 64 bits; those of a run are summed with weights by
        place. Two of a million words share a key with a chance of about 1 in 10 million. No
        run may be empty.
        """
        place = np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths)
        drawn = Random.of((0,), self.ids).keys * GOLDEN ** place.astype(np.uint64)
        return np.add.reduceat(drawn, self.starts)

    def taken(self, which: Ids) -> Spans:
        """Return these runs, in this order, each as often as it is asked for."""
        lengths = self.lengths[which]
        shift = np.repeat(self.starts[which] - (np.cumsum(lengths) - lengths), lengths)
        return Spans(self.ids[shift + np.arange(len(shift))], lengths)

    def joined(self, other: Spans) -> Spans:
        """Return the runs of both."""
        return Spans(
            np.concatenate([self.ids, other.ids]), np.concatenate([self.lengths, other.lengths])
        )

    def without_last(self) -> Spans:
        """Return each run without its last id."""
        return Spans(np.delete(self.ids, self.ends - 1), self.lengths - 1)

    def with_first(self, first: Any) -> Spans:
        """Return each run with one more id at its begin."""
        return Spans(np.insert(self.ids, self.starts, first), self.lengths + 1)

    def with_last(self, last: Any) -> Spans:
        """Return each run with one more id at its end."""
        return Spans(np.insert(self.ids, self.ends, last), self.lengths + 1)

    def padded(self, pad: Any, left: bool, at_least: int, multiple: int) -> NDArray[Any]:
        """Lay the runs out as [batch, time], the shorter ones padded on one side.

        Args:
            pad: what to pad with
            left: whether on the left
            at_least: how long to make them at least
            multiple: what their length is to be a multiple of
        """
        time = max(at_least, int(self.lengths.max(initial=0)))
        time = -(-time // multiple) * multiple
        place, lengths = np.arange(time), self.lengths[:, None]
        rows = np.full((len(self), time), pad, self.ids.dtype)
        rows[place >= time - lengths if left else place < lengths] = self.ids
        return rows
