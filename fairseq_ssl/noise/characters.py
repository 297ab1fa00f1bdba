"""Character-level noise: synthetic spelling errors, and words confused with others."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.noise.batch import (
    NoisedBatch,
    Random,
    TokenBatch,
    keep_one_per_line,
    sort_by_position,
)
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.text.specs import option

DELETE, INSERT, REPLACE, SWAP = range(4)


@dataclass(frozen=True)
class SpellingNoise:
    """Each letter of a word slips with one small probability: one of four slips, equally likely.

    It is deleted, has a random letter put before it, is replaced by one, or changes places
    with the next (the last with the one before). Spaces stay, and a word keeps a letter: a
    sole one is neither deleted nor swapped.
    """

    rate: float = option(0.003, "chance of a slip per character, all four kinds together")
    letters: str = option(string.ascii_lowercase, "what is put in, each as likely")
    spared: frozenset[str] = frozenset({"<mask>"})
    """Words that are no words."""

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1 or not self.letters:
            raise UsageError(
                f"The rate of spelling noise is {self.rate}, from {len(self.letters)} letters; "
                "expected a rate from 0 to 1 and at least one letter."
            )

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Return the same words, some of them misspelt."""
        tokens = clean.tokens.copy()
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        ends = np.cumsum(sizes)
        letters = TokenBatch(np.repeat(np.arange(len(tokens)), sizes), clean.lengths_of(sizes))
        hits = np.flatnonzero(draws.tokens(letters) < self.rate)[::-1]  # the last of a word first
        slips = (4 * draws.tokens(letters, hits)).astype(np.int64).tolist()
        drawn = (len(self.letters) * draws.tokens(letters, hits)).astype(np.int64).tolist()
        words = letters.tokens[hits].tolist()
        for hit, word, slip, letter in zip(hits.tolist(), words, slips, drawn, strict=True):
            if tokens[word] not in self.spared:
                at = hit - int(ends[word] - sizes[word])
                tokens[word] = misspell(tokens[word], at, slip, self.letters[letter])
        return NoisedBatch(TokenBatch(tokens, clean.lengths), np.arange(len(tokens)))


def misspell(word: str, at: int, slip: int, letter: str) -> str:
    """Return `word` with one slip at the letter `at`."""
    if slip == INSERT:
        return word[:at] + letter + word[at:]
    if slip == REPLACE:
        return word[:at] + letter + word[at + 1 :]
    if len(word) == 1:
        return word
    if slip == DELETE:
        return word[:at] + word[at + 1 :]
    at = min(at, len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


SUBSTITUTE, SWAP_WORDS, DELETE_WORD, INSERT_WORD = range(4)
OPERATION_SHARES = (0.7, 0.1, 0.1, 0.1)
"""How often each of the four happens to a chosen word, or to a letter of one."""
LETTER_EDITS = (REPLACE, SWAP, DELETE, INSERT)


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
    ends: NDArray[np.float64] = field(
        init=False, default_factory=lambda: np.cumsum(OPERATION_SHARES)[:3]
    )

    def __post_init__(self) -> None:
        if self.deviation < 0 or not 0 <= self.letter_words <= 1 or not self.letters:
            raise UsageError(
                f"Spell noise has deviation {self.deviation} and letter share {self.letter_words}; "
                "expected none below 0, a share of at most 1, and letters to put in."
            )

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Change words, then letters."""
        return self._words(clean, draws).then(self._letters, draws)

    def _words(self, block: TokenBatch, draws: Random) -> NoisedBatch:
        operation = self._operations(draws.tokens(block))
        operation[~self._chosen(block, draws)] = -1
        gone = keep_one_per_line(block, operation == DELETE_WORD, draws)
        tokens = block.tokens.copy()
        self._substitute(block, tokens, np.flatnonzero(operation == SUBSTITUTE), draws)
        over = np.where(block.place + 1 == block.lengths[block.line], -1.5, 1.5)
        order = sort_by_position(block, np.where(operation == SWAP_WORDS, over, 0.0))
        times = np.where(gone, 0, np.where(operation == INSERT_WORD, 2, 1))
        origin = np.repeat(order, times[order])
        changed = TokenBatch(tokens[origin], block.lengths_of(times))
        put_in = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        changed.tokens[put_in] = self.unigrams.at(draws.tokens(changed, put_in))
        origin[put_in] = -1
        return NoisedBatch(changed, origin)

    def _operations(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = np.searchsorted(self.ends, uniform, side="right")
        return drawn

    def _chosen(self, block: TokenBatch, draws: Random) -> NDArray[np.bool_]:
        """Choose floor(p n) of the n words of each line, each as likely."""
        share = np.abs(self.mean + self.deviation * draws.normal_lines())
        wanted = np.minimum(share * block.lengths, block.lengths).astype(np.int64)
        order = np.argsort((block.line << 32) + (draws.tokens(block) * 2**32).astype(np.int64))
        chosen = np.empty(len(block.tokens), dtype=np.bool_)
        chosen[order] = block.place < wanted[block.line]
        return chosen

    def _substitute(
        self, block: TokenBatch, tokens: NDArray[np.object_], at: NDArray[np.int64], draws: Random
    ) -> None:
        drawn = draws.tokens(block, at).tolist()
        for place, share in zip(at.tolist(), drawn, strict=True):
            others = self.confusions.get(tokens[place], ())
            if others:
                tokens[place] = others[int(share * len(others))]

    def _letters(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
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
            tokens[word] = misspell(tokens[word], at, LETTER_EDITS[operation], letter)
        return NoisedBatch(TokenBatch(tokens, clean.lengths), np.arange(len(tokens)))
