"""Overlapping windows of long sentences for edit taggers (PIE)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.text.spans import Ids, Spans


@dataclass(frozen=True)
class WindowBatch:
    """Windows of sentences, and the positions in each window whose edits are used.

    Each sentence position is used in exactly one window.
    """

    text: Spans
    """Ids of each window, beginning with <s>."""
    begins: Ids
    """First position to use, [windows]. It is 0, for <s>, only in a sentence's first window."""
    ends: Ids
    """Position after the last position to use, [windows]."""

    @property
    def counts(self) -> Ids:
        """Number of positions to use, [windows]."""
        return self.ends - self.begins

    def select(self, which: Ids) -> WindowBatch:
        """Return the windows with the indices `which`."""
        return WindowBatch(self.text.select(which), self.begins[which], self.ends[which])

    @cached_property
    def used_positions(self) -> Ids | None:
        """Indices of the positions to use in the concatenated windows, or None to use them all."""
        if int(self.counts.sum()) == len(self.text.ids):
            return None
        counts = self.counts
        first = np.repeat(self.text.starts + self.begins - _starts(counts), counts)
        positions: Ids = first + np.arange(len(first))
        return positions

    @cached_property
    def ids(self) -> Ids:
        """Ids at the positions to use."""
        used = self.used_positions
        ids: Ids = self.text.ids if used is None else self.text.ids[used]
        return ids


@dataclass(frozen=True)
class Windows:
    """Window size and overlap. An edit comes from the window where its token is most central."""

    size: int
    """Number of tokens or subwords in a window, without <s> and </s>."""
    overlap: int
    """Number of tokens or subwords that consecutive windows share."""

    @classmethod
    def of_model(cls, positions: int) -> Windows:
        """Build windows for a model with `positions` positions, including <s> and </s>.

        Consecutive windows share a quarter of their tokens.
        """
        size = positions - 2
        if size < 1:
            raise ConfigurationError(
                f"The model has {positions} positions. Expected 3 or more, for <s>, a token and "
                "</s>."
            )
        return cls(size, size // 4)

    def split(self, text: Spans, subwords: Ids | None = None) -> WindowBatch:
        """Split sentences into windows.

        Args:
            text: sentences, each beginning with <s>.
            subwords: number of subwords of each token in `text`, for models that read subwords.
                The window size and the overlap are then counted in subwords.
        """
        tokens = text.lengths - 1
        sizes = (
            tokens
            if subwords is None
            else np.add.reduceat(subwords, text.starts) - subwords[text.starts]
        )
        if sizes.max(initial=0) <= self.size:
            return WindowBatch(text, np.zeros_like(tokens), text.lengths)
        if subwords is None:
            counts, first, lengths = self._equal_windows(tokens)
        else:
            counts, first, lengths = self._subword_windows(text, subwords)
        sentence = np.repeat(np.arange(len(text)), counts)
        is_first = np.arange(len(sentence)) == np.repeat(_starts(counts), counts)
        index = np.repeat(text.starts[sentence] + 1 + first - _starts(lengths), lengths)
        windows = Spans(text.ids[index + np.arange(len(index))], lengths)
        begins, ends = self._used_range(first, lengths, is_first, tokens[sentence])
        return WindowBatch(windows.with_first(text.ids[:1]), begins - first + 1, ends - first + 1)

    def _equal_windows(self, tokens: Ids) -> tuple[Ids, Ids, Ids]:
        """Return the number of windows per sentence, and each window's first token and length."""
        step = self.size - self.overlap
        counts = 1 + -(-np.maximum(tokens - self.size, 0) // step)
        window = np.arange(counts.sum()) - np.repeat(_starts(counts), counts)
        lengths = np.repeat(np.minimum(tokens, self.size), counts)
        first = np.minimum(window * step, np.repeat(tokens, counts) - lengths)
        return counts, first, lengths

    def _subword_windows(self, text: Spans, subwords: Ids) -> tuple[Ids, Ids, Ids]:
        """Return the number of windows per sentence, and each window's first token and length.

        A window has at most `size` subwords, or a single token with more subwords.
        """
        counts: list[int] = []
        windows: list[tuple[int, int]] = []
        for costs in text.split(subwords):
            begin, before = 0, len(windows)
            ends = np.cumsum(costs[1:])
            while True:
                spent = int(ends[begin - 1]) if begin else 0
                end = max(begin + 1, int(np.searchsorted(ends, spent + self.size, "right")))
                windows.append((begin, min(end, len(ends)) - begin))
                if end >= len(ends):
                    break
                shared = int(np.searchsorted(ends, int(ends[end - 1]) - self.overlap, "left")) + 1
                begin = max(begin + 1, min(shared, end))
            counts.append(len(windows) - before)
        first, lengths = np.array(windows, np.int64).T
        return np.array(counts), first, lengths

    def _used_range(self, first: Ids, lengths: Ids, is_first: Ids, tokens: Ids) -> tuple[Ids, Ids]:
        """Return the start and end of the tokens to use from each window, as sentence indices.

        The ranges of consecutive windows meet in the middle of their overlap. <s> has the index -1.

        Args:
            first: index in the sentence of each window's first token, [windows].
            lengths: number of tokens in each window, [windows].
            is_first: True for the first window of a sentence, [windows].
            tokens: number of tokens in each window's sentence, [windows].
        """
        last = np.roll(first + lengths, 1) - 1
        begins = np.where(is_first, -1, (last + first) // 2 + 1)
        ends = np.where(np.roll(is_first, -1), tokens, np.roll(begins, -1))
        return begins, ends


def _starts(lengths: Ids) -> Ids:
    starts: Ids = np.cumsum(lengths) - lengths
    return starts
