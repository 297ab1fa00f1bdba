"""The words of a corpus of ids: counted, to be drawn as often as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.data.spans import Spans
from fairseq_ssl.data.word_boundaries import WordBoundaries
from fairseq_ssl.errors import DataError
from fairseq_ssl.noise.tokens import Unigrams

SAMPLE = 1_000_000
"""How many tokens of a corpus are counted, about."""


@dataclass(frozen=True)
class Lexicon:
    """Words that noise may put in, sorted by their keys, and how often each was counted."""

    words: Spans
    counts: NDArray[np.int64]

    @classmethod
    def counted(cls, words: Spans, special: Sequence[int], mask: int | None = None) -> Lexicon:
        """Count words; those that hold a special id are left out.

        Args:
            words: the words of some text
            special: ids that stand for no text of their own; <unk> is such a one: it stands
                for any rare word, so that to put it in would be to put in nothing
            mask: an id that can be put in, but is never drawn
        """
        is_special = np.isin(words.ids, np.array(special, dtype=np.int64))
        plain = ~np.logical_or.reduceat(is_special, words.starts)
        known = words.taken(np.flatnonzero(plain))
        keys, first, counts = np.unique(known.keys, return_index=True, return_counts=True)
        if not len(keys):
            raise DataError(
                "The training text holds no word to draw from: all that was read is <unk> or "
                "another special symbol. Binarise it with the dictionary of its own subwords."
            )
        lexicon = cls(known.taken(first), counts)
        return lexicon if mask is None else lexicon._with(mask)

    @cached_property
    def unigrams(self) -> Unigrams:
        """The words by their keys, drawn as often as they were counted."""
        return Unigrams(self.words.keys, np.cumsum(self.counts))

    def of_keys(self, keys: NDArray[np.uint64]) -> Spans:
        """Return the words that have these keys; all of them must be here."""
        return self.words.taken(np.searchsorted(self.words.keys, keys))

    def _with(self, mask: int) -> Lexicon:
        """Add a word of one id, counted as never seen."""
        words = self.words.joined(Spans.of([np.array([mask])]))
        order = np.argsort(words.keys)
        return Lexicon(words.taken(order), np.append(self.counts, 0)[order])


def sampled(text: Any, sizes: NDArray[Any], tokens: int = SAMPLE) -> Spans:
    """Read lines, evenly spaced over the text, of about so many tokens, or all if there are less.

    They come without the id that ends each.
    """
    count = len(text)
    if total := int(np.sum(sizes, dtype=np.int64)):
        count = min(count, -(-count * tokens // total))
    chosen = np.arange(count) * len(text) // max(count, 1)
    if getattr(text, "supports_prefetch", False):
        text.prefetch(chosen)
    return Spans.of([text[int(line)].numpy() for line in chosen]).without_last()


def read_lexicon(
    text: Any,
    sizes: NDArray[Any],
    boundaries: WordBoundaries,
    special: Sequence[int],
    mask: int | None,
) -> Lexicon:
    """Count the words of a sample of the training text."""
    lines = sampled(text, sizes)
    known = len(boundaries.begins)
    if lines.ids.max(initial=0) >= known:
        raise DataError(
            f"The training data holds the id {lines.ids.max()} and its dictionary only {known} "
            "symbols. Expected the dictionary that the data was binarised with."
        )
    words, _ = boundaries.cut(lines)
    return Lexicon.counted(words, special, mask)
