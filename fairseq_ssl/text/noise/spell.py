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
from fairseq_ssl.text.noise.unigrams import Unigrams

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
    mean: float = 0.15
    deviation: float = 0.2
    letter_words: float = 0.1
    letters: str = string.ascii_lowercase
    ends: NDArray[np.float64] = field(init=False, default_factory=lambda: np.cumsum(SHARES)[:3])

    def __post_init__(self) -> None:
        if self.deviation < 0 or not 0 <= self.letter_words <= 1 or not self.letters:
            raise UsageError(
                f"Spell noise has deviation {self.deviation} and letter share {self.letter_words}; "
                "expected none below 0, a share of at most 1, and letters to put in."
            )

    def __call__(self, clean: Block, random: np.random.Generator) -> Noisy:
        """Change words, then letters."""
        return self._words(clean, random).then(self._letters, random)

    def _words(self, block: Block, random: np.random.Generator) -> Noisy:
        operation = self._operations(len(block.tokens), random)
        operation[~self._chosen(block, random)] = -1
        gone = spare_one(block, operation == DELETE, random)
        tokens = block.tokens.copy()
        self._substitute(tokens, np.flatnonzero(operation == SUBSTITUTE), random)
        over = np.where(block.place + 1 == block.lengths[block.line], -1.5, 1.5)
        order = sorted_by_place(block, np.where(operation == SWAP, over, 0.0))
        times = np.where(gone, 0, np.where(operation == INSERT, 2, 1))
        origin = np.repeat(order, times[order])
        tokens = tokens[origin]
        put_in = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        tokens[put_in] = self.unigrams.draw(len(put_in), random)
        origin[put_in] = -1
        return Noisy(Block(tokens, block.lengths_of(times)), origin)

    def _operations(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = np.searchsorted(self.ends, random.random(count), side="right")
        return drawn

    def _chosen(self, block: Block, random: np.random.Generator) -> NDArray[np.bool_]:
        """Choose floor(p n) of the n words of each line, each as likely."""
        share = np.abs(random.normal(self.mean, self.deviation, len(block.lengths)))
        wanted = np.minimum(share * block.lengths, block.lengths).astype(np.int64)
        order = np.lexsort((random.random(len(block.tokens)), block.line))
        chosen = np.empty(len(block.tokens), dtype=np.bool_)
        chosen[order] = block.place < wanted[block.line]
        return chosen

    def _substitute(
        self, tokens: NDArray[np.object_], at: NDArray[np.int64], random: np.random.Generator
    ) -> None:
        drawn = random.random(len(at)).tolist()
        for place, share in zip(at.tolist(), drawn, strict=True):
            others = self.confusions.get(tokens[place], ())
            if others:
                tokens[place] = others[int(share * len(others))]

    def _letters(self, clean: Block, random: np.random.Generator) -> Noisy:
        """Change one letter of some words, by an operation and at a place of their own."""
        tokens = clean.tokens.copy()
        words = np.flatnonzero(random.random(len(tokens)) < self.letter_words)
        operations = self._operations(len(words), random).tolist()
        places, letters = random.random(len(words)).tolist(), random.random(len(words)).tolist()
        for word, operation, place, share in zip(
            words.tolist(), operations, places, letters, strict=True
        ):
            letter = self.letters[int(share * len(self.letters))]
            at = int(place * len(tokens[word]))
            tokens[word] = spelling.slipped(tokens[word], at, OF_LETTERS[operation], letter)
        return Noisy(Block(tokens, clean.lengths), np.arange(len(tokens)))
