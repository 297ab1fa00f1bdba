"""Words drawn as often as they were counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError

STEPS = 3
"""How many words are tried after the one that the guide names, before a search in all."""


@dataclass(frozen=True)
class Unigrams:
    """The exact unigram distribution: each word with its count over the sum of all counts."""

    words: NDArray[Any]
    up_to: NDArray[np.int64]
    """Sums of the counts, each word's own included."""

    @classmethod
    def counted(cls, lines: Iterable[str]) -> Unigrams:
        """Count the words of text."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line.split())
        return cls.of(counts)

    @classmethod
    def of(cls, counts: Mapping[Any, int]) -> Unigrams:
        """Take words, or ids, with their counts; the order of equal ones does not matter."""
        kept = sorted((word, count) for word, count in counts.items() if count > 0)
        if not kept:
            raise DataError("There is no word to draw from: the counts are empty.")
        words = np.empty(len(kept), dtype=object)
        words[:] = [word for word, _ in kept]
        if not isinstance(kept[0][0], str):
            words = words.astype(np.int64)
        return cls(words, np.cumsum([count for _, count in kept]))

    def numbered(self) -> Unigrams:
        """Return the same distribution over the words' numbers."""
        return Unigrams(np.arange(len(self.words)), self.up_to)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Sums of the counts, where nothing is beyond the last word."""
        return np.append(self.up_to[:-1], np.iinfo(np.int64).max)

    @cached_property
    def _guide(self) -> NDArray[np.int64]:
        """Tell of equal steps of [0, 1], four for each word, the word at which each begins."""
        steps = np.linspace(0, self.up_to[-1], 4 * len(self.words) + 1)
        return np.searchsorted(self._ends, steps, side="right")

    def at(self, uniform: NDArray[np.float64]) -> NDArray[Any]:
        """Return the word for each number in [0, 1): each as often as it was counted."""
        wanted = uniform * self.up_to[-1]
        at = self._guide[(uniform * (len(self._guide) - 1)).astype(np.int64)]
        for _ in range(STEPS):
            at += self._ends[at] <= wanted
        late = np.flatnonzero(self._ends[at] <= wanted)
        at[late] = np.searchsorted(self._ends, wanted[late], side="right")
        words: NDArray[Any] = self.words[at]
        return words
