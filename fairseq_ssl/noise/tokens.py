"""Token-level noise: direct, denoising and filtering noise, and words drawn by frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.noise.batch import (
    NoisedBatch,
    Random,
    TokenBatch,
    choose_one_per_line,
    keep_one_per_line,
    repeated,
    sort_by_position,
    unchanged,
)
from fairseq_ssl.text.specs import option

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


@dataclass(frozen=True)
class DirectNoise:
    """For each token one of four: keep it, mask it, delete it, or put a random word after it.

    What is left of 1 by `keep` and `mask` is shared by deletion and insertion. A line never
    loses all of its tokens: where it would, one at random stays.
    """

    unigrams: Unigrams
    keep: float = option(0.2, "share of the tokens kept (mu_keep)")
    mask: float = option(0.3, "share of the tokens masked (mu_mask)")
    mask_token: Any = "<mask>"

    def __post_init__(self) -> None:
        if min(self.keep, self.mask) < 0 or self.keep + self.mask > 1:
            raise UsageError(
                f"The rates of direct noise are keep {self.keep} and mask {self.mask}; expected "
                "none below 0 and a sum of at most 1."
            )

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Return X of algorithm 2 for each Y of the block."""
        half = (1 - self.keep - self.mask) / 2
        drawn = draws.tokens(clean)
        inserted = drawn >= self.keep + self.mask + half
        gone = keep_one_per_line(clean, (drawn >= self.keep + self.mask) & ~inserted, draws)
        masked = clean.tokens.copy()
        masked[(drawn >= self.keep) & (drawn < self.keep + self.mask)] = self.mask_token
        noisy = repeated(TokenBatch(masked, clean.lengths), 1 + inserted.view(np.int8) - gone)
        tokens, origin = noisy.block.tokens, noisy.origin
        after = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        tokens[after] = self.unigrams.at(draws.tokens(noisy.block, after))
        origin[after] = -1
        return noisy


SHUFFLE, DELETE, REPLACE = range(3)


@dataclass(frozen=True)
class DenoisingNoise:
    """Each line is shuffled a little, loses some words and has others replaced, in random order.

    The share deleted and the share replaced are drawn for each line and operation from a
    Beta distribution of the given mean and standard deviation.
    """

    unigrams: Unigrams
    mean: float = option(0.15, "mean share of the words deleted, and of those replaced")
    deviation: float = option(0.03, "standard deviation of both shares")
    sigma: float = option(0.5, "standard deviation of what is added to a place before sorting")

    def __post_init__(self) -> None:
        if not 0 < self.mean < 1 or not 0 < self.deviation**2 < self.mean * (1 - self.mean):
            raise UsageError(
                f"No Beta distribution has mean {self.mean} and deviation {self.deviation}; "
                "expected a mean between 0 and 1 and a variance below mean (1 - mean)."
            )

    @cached_property
    def alpha_and_beta(self) -> tuple[float, float]:
        """Solve mean = a / (a + b) and variance = ab / ((a + b)^2 (a + b + 1))."""
        total = self.mean * (1 - self.mean) / self.deviation**2 - 1
        return self.mean * total, (1 - self.mean) * total

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Apply the three operations to each line, in an order of its own."""
        order = np.argsort([draws.lines() for _ in range(3)], axis=0)
        noisy = unchanged(clean)
        for step in range(3):
            noisy = noisy.then(partial(self._one_each, order[step]), draws)
        return noisy

    @cached_property
    def shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Tabulate the Beta distribution: the chance of a share up to a value, and the values."""
        alpha, beta = self.alpha_and_beta
        reach = 30 * self.deviation
        edges = np.linspace(max(0, self.mean - reach), min(1, self.mean + reach), 10_001)
        middle = (edges[1:] + edges[:-1]) / 2
        density = (alpha - 1) * np.log(middle) + (beta - 1) * np.log1p(-middle)
        up_to = np.append(0, np.cumsum(np.exp(density - density.max())))
        return up_to / up_to[-1], edges

    def _one_each(
        self, operation: NDArray[np.int64], block: TokenBatch, draws: Random
    ) -> NoisedBatch:
        """Apply to each line its own one of the operations; no line is emptied."""
        of_token = operation[block.line]
        share = np.interp(draws.lines(), *self.shares)
        hit = draws.tokens(block) < share[block.line]
        gone = keep_one_per_line(block, hit & (of_token == DELETE), draws)
        tokens = block.tokens.copy()
        replaced = np.flatnonzero(hit & (of_token == REPLACE))
        tokens[replaced] = self.unigrams.at(draws.tokens(block, replaced))
        shuffled = np.flatnonzero(of_token == SHUFFLE)
        shift = self.sigma * draws.normal(block, shuffled)
        order = np.arange(len(tokens))
        order[shuffled] = sort_by_position(block, shift, shuffled)
        origin = order[~gone]  # no line is shuffled and loses words
        return NoisedBatch(TokenBatch(tokens[origin], block.lengths_of(~gone)), origin)


@dataclass(frozen=True)
class FilteringNoise:
    """Words are deleted, others replaced by random ones, and what is left is shuffled a little.

    No line stays as it was, as the noisy lines are to be told from clean ones: where chance
    hits no word of a line, one at random is replaced.
    """

    unigrams: Unigrams
    delete: float = option(0.1, "share of the words deleted")
    replace: float = option(0.1, "share of the words replaced by one drawn by its count")
    distance: float = option(3.0, "a word moves by at most this many places; 0: none moves")

    def __post_init__(self) -> None:
        if min(self.delete, self.replace, self.distance) < 0 or self.delete + self.replace > 1:
            raise UsageError(
                f"Filtering noise deletes {self.delete}, replaces {self.replace} and moves by "
                f"{self.distance}; expected none below 0 and shares of at most 1 together."
            )

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Delete and replace, then sort by place + U(0, distance)."""
        drawn = draws.tokens(clean)
        gone = keep_one_per_line(clean, drawn < self.delete, draws)
        hit = ~gone & (drawn < self.delete + self.replace)
        chosen = choose_one_per_line(clean, draws)
        spared = (clean.lengths > 0) & (clean.lengths_of(hit | gone) == 0)
        hit[chosen[spared]] = True
        tokens = clean.tokens.copy()
        at = np.flatnonzero(hit)
        tokens[at] = self.unigrams.at(draws.tokens(clean, at))
        order = sort_by_position(clean, self.distance * draws.tokens(clean))
        origin = order[~gone[order]]
        return NoisedBatch(TokenBatch(tokens[origin], clean.lengths_of(~gone)), origin)
