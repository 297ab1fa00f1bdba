"""Where words begin among subwords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.errors import ConfigurationError, nearest
from fairseq_ssl.text.tokenization import SUBWORDS


@dataclass(frozen=True)
class WordBoundaries:
    """Between which ids of a dictionary a word ends and the next begins."""

    begins: NDArray[np.bool_]
    """By id: whether it can begin a word."""
    ends: NDArray[np.bool_]
    """By id: whether what follows it can begin a word."""

    @classmethod
    def of(cls, symbols: Sequence[str], subwords: str) -> WordBoundaries:
        """Read the marks of one kind of subwords in the symbols of a dictionary.

        Of sentencepiece a piece that starts with U+2581 begins a word, of subword-nmt what
        follows a piece that ends with @@ does not; with none each token is a word.
        """
        if subwords not in SUBWORDS:
            raise ConfigurationError(
                f"There are no subwords {subwords!r}.{nearest(subwords, SUBWORDS)} Expected one "
                f"of {', '.join(SUBWORDS)}."
            )
        everywhere = np.ones(len(symbols), dtype=np.bool_)
        if subwords == "sentencepiece":
            return cls(np.array([word.startswith("\u2581") for word in symbols]), everywhere)
        if subwords == "subword-nmt":
            return cls(everywhere, np.array([not word.endswith("@@") for word in symbols]))
        return cls(everywhere, everywhere)

    def cut(self, lines: Spans) -> tuple[Spans, Ids]:
        """Cut lines at their words; returns all words, and how many each line has.

        Where a line begins, a word begins.
        """
        begins = self.begins[lines.ids]
        begins[1:] &= self.ends[lines.ids[:-1]]
        begins[lines.starts[lines.lengths > 0]] = True
        starts = np.flatnonzero(begins)
        line = np.repeat(np.arange(len(lines)), lines.lengths)
        words = Spans(lines.ids, np.diff(np.append(starts, len(lines.ids))))
        return words, np.bincount(line[starts], minlength=len(lines))
