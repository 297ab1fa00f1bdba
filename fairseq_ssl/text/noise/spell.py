"""DirectNoise (spell): words confused with others (Grundkiewicz et al., 2019; thesis, 4.3.2)."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.noise import spelling
from fairseq_ssl.text.noise.block import Block, Noisy, sorted_by_place, spare_one
from fairseq_ssl.text.noise.draws import Draws
from fairseq_ssl.text.noise.unigrams import Unigrams
from fairseq_ssl.text.specs import option

SUBSTITUTE, SWAP, DELETE, INSERT = range(4)
SHARES = (0.7, 0.1, 0.1, 0.1)
"""How often each of the four happens to a chosen word, or to a letter of one."""
OF_LETTERS = (spelling.REPLACE, spelling.SWAP, spelling.DELETE, spelling.INSERT)


@dataclass(frozen=True)
class SpellNoise:
    """Some words of each line are confused, moved, lost or joined by another; then some letters.

    The share of words is drawn for each line from |N(`mean`, `deviation`)|. A word that is to
    be substituted and has no confusion set stays; one that is swapped changes places with the
    next, the last with the one before. Then `letter_words` of the words have
    one letter changed by the same four operations.
    """

    confusions: Mapping[str, Sequence[str]]
    unigrams: Unigrams
    mean: float = option(0.15, "mean of the normal that gives the share of words changed")
    deviation: float = option(0.2, "its standard deviation")
    letter_words: float = option(0.1, "share of the words of which a letter is changed")
    letters: str = option(string.ascii_lowercase, "what is put in, each as likely")
    ends: NDArray[np.float64] = field(init=False, default_factory=lambda: np.cumsum(SHARES)[:3])

    def __post_init__(self) -> None:
        if self.deviation < 0 or not 0 <= self.letter_words <= 1 or not self.letters:
            raise UsageError(
                f"Spell noise has deviation {self.deviation} and letter share {self.letter_words}; "
                "expected none below 0, a share of at most 1, and letters to put in."
            )

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Change words, then letters."""
        return self._words(clean, draws).then(self._letters, draws)

    def _words(self, block: Block, draws: Draws) -> Noisy:
        operation = self._operations(draws.tokens(block))
        operation[~self._chosen(block, draws)] = -1
        gone = spare_one(block, operation == DELETE, draws)
        tokens = block.tokens.copy()
        self._substitute(block, tokens, np.flatnonzero(operation == SUBSTITUTE), draws)
        over = np.where(block.place + 1 == block.lengths[block.line], -1.5, 1.5)
        order = sorted_by_place(block, np.where(operation == SWAP, over, 0.0))
        times = np.where(gone, 0, np.where(operation == INSERT, 2, 1))
        origin = np.repeat(order, times[order])
        changed = Block(tokens[origin], block.lengths_of(times))
        put_in = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        changed.tokens[put_in] = self.unigrams.at(draws.tokens(changed, put_in))
        origin[put_in] = -1
        return Noisy(changed, origin)

    def _operations(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = np.searchsorted(self.ends, uniform, side="right")
        return drawn

    def _chosen(self, block: Block, draws: Draws) -> NDArray[np.bool_]:
        """Choose floor(p n) of the n words of each line, each as likely."""
        share = np.abs(self.mean + self.deviation * draws.normal_lines())
        wanted = np.minimum(share * block.lengths, block.lengths).astype(np.int64)
        order = np.argsort((block.line << 32) + (draws.tokens(block) * 2**32).astype(np.int64))
        chosen = np.empty(len(block.tokens), dtype=np.bool_)
        chosen[order] = block.place < wanted[block.line]
        return chosen

    def _substitute(
        self, block: Block, tokens: NDArray[np.object_], at: NDArray[np.int64], draws: Draws
    ) -> None:
        drawn = draws.tokens(block, at).tolist()
        for place, share in zip(at.tolist(), drawn, strict=True):
            others = self.confusions.get(tokens[place], ())
            if others:
                tokens[place] = others[int(share * len(others))]

    def _letters(self, clean: Block, draws: Draws) -> Noisy:
        """Change one letter of some words, by an operation and at a place of their own."""
        tokens = clean.tokens.copy()
        words = np.flatnonzero(draws.tokens(clean) < self.letter_words)
        operations = self._operations(draws.tokens(clean, words)).tolist()
        places, letters = (draws.tokens(clean, words).tolist() for _ in range(2))
        for word, operation, place, share in zip(
            words.tolist(), operations, places, letters, strict=True
        ):
            letter = self.letters[int(share * len(self.letters))]
            at = int(place * len(tokens[word]))
            tokens[word] = spelling.slipped(tokens[word], at, OF_LETTERS[operation], letter)
        return Noisy(Block(tokens, clean.lengths), np.arange(len(tokens)))
