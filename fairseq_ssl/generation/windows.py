"""Long sentences in windows that overlap: each token is seen with what is around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.errors import ConfigurationError


@dataclass(frozen=True)
class Pieces:
    """What a model is to see, and which positions of it count.

    The positions that count are those of the text, each once, in its order.
    """

    text: Spans
    """The ids of each piece, the start first."""
    begins: Ids
    """The first position of each that counts: 0, the start, only where a sentence begins."""
    ends: Ids
    """The position after the last that counts."""

    @property
    def counts(self) -> Ids:
        """How many positions of each piece count."""
        return self.ends - self.begins

    def taken(self, which: Ids) -> Pieces:
        """Return these pieces, in this order."""
        return Pieces(self.text.taken(which), self.begins[which], self.ends[which])

    @cached_property
    def wanted(self) -> Ids | None:
        """The positions that count, among those of all pieces end to end; None: all."""
        if int(self.counts.sum()) == len(self.text.ids):
            return None
        counts = self.counts
        first = np.repeat(self.text.starts + self.begins - _starts(counts), counts)
        found: Ids = first + np.arange(len(first))
        return found

    @cached_property
    def ids(self) -> Ids:
        """The ids of the positions that count."""
        found: Ids = self.text.ids if self.wanted is None else self.text.ids[self.wanted]
        return found

    @cached_property
    def sentence_starts(self) -> Ids:
        """Where, among the positions that count, a sentence starts."""
        found: Ids = _starts(self.counts)[self.begins == 0]
        return found


@dataclass(frozen=True)
class Windows:
    """Cuts sentences into windows of equal length; each token counts where it is most inside."""

    size: int
    """Tokens in a window, without the start and the end that each has."""
    overlap: int
    """Tokens that two windows in a row share."""

    @classmethod
    def of_model(cls, positions: int, overlap: int | None) -> Windows:
        """Make them for a model of so many positions; by default a quarter of each overlaps."""
        size = positions - 2
        if size < 1:
            raise ConfigurationError(
                f"The model sees {positions} positions; expected 3 or more, for a start, a token "
                "and an end. See --max-source-positions."
            )
        if overlap is None:
            overlap = size // 4
        if not 0 <= overlap < size:
            raise ConfigurationError(
                f"--edit-window-overlap is {overlap}; expected 0 or more, and less than the {size} "
                "tokens of a window."
            )
        return cls(size, overlap)

    def cut(self, text: Spans) -> Pieces:
        """Cut sentences, each with its start first."""
        tokens = text.lengths - 1
        if tokens.max(initial=0) <= self.size:
            return Pieces(text, np.zeros_like(tokens), text.lengths)
        step = self.size - self.overlap
        counts = 1 + -(-np.maximum(tokens - self.size, 0) // step)
        sentence = np.repeat(np.arange(len(text)), counts)
        number = np.arange(len(sentence)) - np.repeat(_starts(counts), counts)
        lengths = np.minimum(tokens, self.size)[sentence]
        first = np.minimum(number * step, tokens[sentence] - lengths)
        index = np.repeat(text.starts[sentence] + 1 + first - _starts(lengths), lengths)
        pieces = Spans(text.ids[index + np.arange(len(index))], lengths)
        begins, ends = self._inner(first, number == 0, tokens[sentence])
        return Pieces(pieces.with_first(text.ids[:1]), begins - first + 1, ends - first + 1)

    def _inner(self, first: Ids, is_first: Ids, tokens: Ids) -> tuple[Ids, Ids]:
        """Return which tokens of its sentence count in each window; the start is number -1.

        Where two windows overlap the border is in the middle: from there on a token is farther
        from the begin of the second than from the end of the first.
        """
        previous = np.roll(first, 1)
        begins = np.where(is_first, -1, (previous + self.size - 1 + first) // 2 + 1)
        ends = np.where(np.roll(is_first, -1), tokens, np.roll(begins, -1))
        return begins, ends


def _starts(lengths: Ids) -> Ids:
    starts: Ids = np.cumsum(lengths) - lengths
    return starts
