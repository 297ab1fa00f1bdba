"""Synthetic spelling errors (SSE): slips of single letters (thesis, section 4.4.5)."""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.noise.block import Block, Noisy
from fairseq_ssl.text.noise.draws import Draws
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

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Return the same words, some of them misspelt."""
        tokens = clean.tokens.copy()
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        ends = np.cumsum(sizes)
        letters = Block(np.repeat(np.arange(len(tokens)), sizes), clean.lengths_of(sizes))
        hits = np.flatnonzero(draws.tokens(letters) < self.rate)[::-1]  # the last of a word first
        slips = (4 * draws.tokens(letters, hits)).astype(np.int64).tolist()
        drawn = (len(self.letters) * draws.tokens(letters, hits)).astype(np.int64).tolist()
        words = letters.tokens[hits].tolist()
        for hit, word, slip, letter in zip(hits.tolist(), words, slips, drawn, strict=True):
            if tokens[word] not in self.spared:
                at = hit - int(ends[word] - sizes[word])
                tokens[word] = slipped(tokens[word], at, slip, self.letters[letter])
        return Noisy(Block(tokens, clean.lengths), np.arange(len(tokens)))


def slipped(word: str, at: int, slip: int, letter: str) -> str:
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
