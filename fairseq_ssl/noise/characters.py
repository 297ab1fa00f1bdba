"""Character-level noise: random spelling errors, and words replaced from confusion sets."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.noise.batch import (
    NoisedBatch,
    Random,
    TokenBatch,
    Tokens,
    keep_one_per_line,
    sort_by_position,
)
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.options import check, option

DELETE, INSERT, REPLACE, SWAP = range(4)


@dataclass(frozen=True)
class CharacterNoise:
    """Delete, insert, replace or swap random characters, each with the same probability.

    An insertion adds a random letter before the selected character. A replacement substitutes a
    random letter for it. A swap exchanges it with the next character, or with the previous one at
    the end of a word. Words of one character are neither deleted nor swapped. Spaces never change.
    """

    rate: float = option(0.003, "probability of an error per character", low=0, high=1)
    letters: str = option(string.ascii_lowercase, "letters to insert or substitute")
    table: WordTable = field(default_factory=WordTable)
    spared: frozenset[str] = frozenset({"<mask>"})
    """Special tokens that are never changed."""

    def __post_init__(self) -> None:
        check(self)
        _check_letters(self.letters)

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Return the lines with random spelling errors. The number of words stays the same."""
        tokens, edits = clean.tokens.copy(), list(self._edits(clean, draws))
        changed = list({word: None for word, *_ in edits})
        strings = self.table.strings(tokens[np.array(changed, np.int64)])
        misspelled = dict(zip(changed, strings, strict=True))
        for word, at, edit, letter in edits:
            if misspelled[word] not in self.spared:
                misspelled[word] = misspell(misspelled[word], at, edit, letter)
        if edits:
            tokens[changed] = self.table.add(list(misspelled.values()))
        return NoisedBatch(TokenBatch(tokens, clean.lengths), np.arange(len(tokens)))

    def _edits(self, clean: TokenBatch, draws: Random) -> Iterator[tuple[int, int, int, str]]:
        """Yield the word index, character position, edit and letter of each error, for `misspell`.

        Errors are ordered from right to left, because an edit shifts the positions after it.
        """
        sizes = self.table.words.characters()[clean.tokens]
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        letters = TokenBatch(np.broadcast_to(np.int64(0), total), clean.lengths_of(sizes))
        hits = np.flatnonzero(draws.tokens(letters) < self.rate)[::-1]
        edits = (4 * draws.tokens(letters, hits)).astype(np.int64).tolist()
        drawn = (len(self.letters) * draws.tokens(letters, hits)).astype(np.int64).tolist()
        words = np.searchsorted(ends, hits, side="right")
        places = (hits - ends[words] + sizes[words]).tolist()
        inserted = map(self.letters.__getitem__, drawn)
        return zip(words.tolist(), places, edits, inserted, strict=True)


def misspell(word: str, at: int, edit: int, letter: str) -> str:
    """Return `word` with one edit at character position `at`.

    `edit` is DELETE, INSERT, REPLACE or SWAP. INSERT and REPLACE use `letter`. A word of one
    character is neither deleted nor swapped.
    """
    if edit == INSERT:
        return word[:at] + letter + word[at:]
    if edit == REPLACE:
        return word[:at] + letter + word[at + 1 :]
    if len(word) == 1:
        return word
    if edit == DELETE:
        return word[:at] + word[at + 1 :]
    at = min(at, len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


SUBSTITUTE, SWAP_WORDS, DELETE_WORD, INSERT_WORD = range(4)
OPERATION_SHARES = (0.7, 0.1, 0.1, 0.1)
"""Probabilities of substitution, swap, deletion and insertion, for both words and letters."""
OPERATION_ENDS = np.cumsum(OPERATION_SHARES)[:3]
LETTER_EDITS = (REPLACE, SWAP, DELETE, INSERT)


@dataclass(frozen=True)
class ConfusionNoise:
    """Substitute words from confusion sets; swap, delete and insert words; then edit letters.

    The fraction of changed words is drawn for each line from |N(`mean`, `std`)|. A word without
    a confusion set is not substituted. A swap exchanges a word with the next one, or the last word
    of a line with the previous one. Finally, each word gets an edit of one letter with probability
    `letter_words`. Letters are replaced, swapped, deleted or inserted.
    """

    confusions: Mapping[str, Sequence[str]]
    unigrams: Unigrams
    mean: float = option(
        0.15, "mean of the normally distributed fraction of changed words", low=-10, high=10
    )
    std: float = option(0.2, "standard deviation of the fraction of changed words", low=0, high=10)
    letter_words: float = option(
        0.1, "probability that one letter of a word is edited", low=0, high=1
    )
    letters: str = option(string.ascii_lowercase, "letters to insert or substitute")
    table: WordTable = field(default_factory=WordTable)
    spared: frozenset[str] = frozenset({"<mask>"})
    """Special tokens whose letters are never edited."""

    def __post_init__(self) -> None:
        check(self)
        _check_letters(self.letters)

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Apply word operations to the lines, then letter edits."""
        return self._change_words(clean, draws).then(self._change_letters, draws)

    def _change_words(self, block: TokenBatch, draws: Random) -> NoisedBatch:
        operation = _operations(draws.tokens(block))
        operation[~self._choose_words(block, draws)] = -1
        gone = keep_one_per_line(block, operation == DELETE_WORD, draws)
        tokens = block.tokens.copy()
        self._substitute(block, tokens, np.flatnonzero(operation == SUBSTITUTE), draws)
        over = np.where(block.place + 1 == block.lengths[block.line], -1.5, 1.5)
        order = sort_by_position(block, np.where(operation == SWAP_WORDS, over, 0.0))
        times = np.where(gone, 0, np.where(operation == INSERT_WORD, 2, 1))
        origin = np.repeat(order, times[order])
        changed = TokenBatch(tokens[origin], block.lengths_of(times))
        inserted = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        changed.tokens[inserted] = self.unigrams.at(draws.tokens(changed, inserted))
        origin[inserted] = -1
        return NoisedBatch(changed, origin)

    def _choose_words(self, block: TokenBatch, draws: Random) -> NDArray[np.bool_]:
        """Return a mask of the words to change: floor(p n) random words per line of n words.

        The fraction p is drawn for each line.
        """
        share = np.abs(self.mean + self.std * draws.normal_lines())
        counts = np.minimum(share * block.lengths, block.lengths).astype(np.int64)
        order = np.argsort((block.line << 32) + (draws.tokens(block) * 2**32).astype(np.int64))
        chosen = np.empty(len(block.tokens), dtype=np.bool_)
        chosen[order] = block.place < counts[block.line]
        return chosen

    def _substitute(
        self, block: TokenBatch, tokens: Tokens, at: NDArray[np.int64], draws: Random
    ) -> None:
        drawn = draws.tokens(block, at).tolist()
        words = [
            others[int(share * len(others))] if (others := self.confusions.get(word)) else word
            for word, share in zip(self.table.strings(tokens[at]), drawn, strict=True)
        ]
        tokens[at] = self.table.add(words)

    def _change_letters(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Edit one letter of some words, with a random operation at a random position."""
        tokens = clean.tokens.copy()
        at = np.flatnonzero(draws.tokens(clean) < self.letter_words)
        operations = _operations(draws.tokens(clean, at)).tolist()
        places, shares = (draws.tokens(clean, at).tolist() for _ in range(2))
        words = self.table.strings(tokens[at])
        for index, (word, operation, place, share) in enumerate(
            zip(words, operations, places, shares, strict=True)
        ):
            if word not in self.spared:
                letter = self.letters[int(share * len(self.letters))]
                edit = LETTER_EDITS[operation]
                words[index] = misspell(word, int(place * len(word)), edit, letter)
        tokens[at] = self.table.add(words)
        return NoisedBatch(TokenBatch(tokens, clean.lengths), np.arange(len(tokens)))


def _operations(uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    drawn: NDArray[np.int64] = np.searchsorted(OPERATION_ENDS, uniform, side="right")
    return drawn


def _check_letters(letters: str) -> None:
    """Raise UsageError if `letters` is empty or contains spaces, which would split words."""
    if letters.split() != [letters]:
        raise UsageError(f"`letters` is {letters!r}. Expected at least one letter and no spaces.")
