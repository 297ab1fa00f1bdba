"""Token-level noise: direct noise, shuffling, negative examples, and unigram distributions."""

from __future__ import annotations

from collections.abc import Mapping
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
    Tokens,
    choose_one_per_line,
    keep_one_per_line,
    repeated,
    sort_by_position,
    unchanged,
)
from fairseq_ssl.options import check, option

MAX_SHIFT = 1_000_000
"""Maximum value of `sigma` and `distance`, so that the 64-bit integers in `sort_by_position` do not
overflow."""
STEPS = 2
"""Number of linear search steps after the lookup in the guide table and before binary search."""


@dataclass(frozen=True)
class Unigrams:
    """Unigram distribution: the probability of a word is its count divided by the total count."""

    up_to: NDArray[np.int64]
    """Cumulative counts: entry i is the sum of the counts of words 0 to i, [words]."""
    ids: Tokens | None = None
    """Id of each word, [words] (default: the index of the word)."""

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> tuple[list[str], Unigrams]:
        """Return the words with counts above 0, in alphabetical order, and their distribution."""
        kept = sorted((word, count) for word, count in counts.items() if count > 0)
        if not kept:
            raise DataError(
                "The word counts contain no count above 0. Expected at least one word to sample."
            )
        return [word for word, _ in kept], cls(np.cumsum([count for _, count in kept]))

    @cached_property
    def _ends(self) -> NDArray[np.float64]:
        """Cumulative counts as floats. The last entry is infinity, above any rounded target."""
        return np.append(self.up_to[:-1].astype(np.float64), np.inf)

    @cached_property
    def _guide(self) -> NDArray[np.int32]:
        """Guide table: the word index at 4 n + 1 evenly spaced cumulative counts, for n words."""
        steps = np.linspace(0, self.up_to[-1], 4 * len(self.up_to) + 1)
        return np.searchsorted(self._ends, steps, side="right").astype(np.int32)

    def at(self, uniform: NDArray[np.float64]) -> Tokens:
        """Map uniform random numbers in [0, 1) to word ids with inverse transform sampling."""
        target = uniform * self.up_to[-1]
        at = self._guide.take((uniform * (len(self._guide) - 1)).astype(np.int64)).astype(np.int64)
        for _ in range(STEPS):
            at += self._ends.take(at) <= target
        late = np.flatnonzero(self._ends.take(at) <= target)
        at[late] = np.searchsorted(self._ends, target[late], side="right")
        return at if self.ids is None else self.ids.take(at)


@dataclass(frozen=True)
class DirectNoise:
    """Keep, mask or delete each token, or insert a random word after it.

    This is algorithm 2 of Kiyono (2022), except that a line whose tokens would all be deleted keeps
    a random token. Deletion and insertion each have the probability (1 - `keep` - `mask`) / 2.
    """

    unigrams: Unigrams
    mask_token: Any
    """Id of the mask token."""
    keep: float = option(0.2, "probability that a token is kept (mu_keep)", low=0, high=1)
    mask: float = option(
        0.3, "probability that a token is masked (mu_mask); keep + mask is at most 1", low=0, high=1
    )

    def __post_init__(self) -> None:
        check(self)
        if self.keep + self.mask > 1:
            raise UsageError(f"`keep` + `mask` is {self.keep + self.mask:g}. Expected 1 or less.")

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Return a noisy line (X in the algorithm) for each clean line (Y)."""
        half = (1 - self.keep - self.mask) / 2
        drawn = draws.tokens(clean)
        inserted = drawn >= self.keep + self.mask + half
        gone = keep_one_per_line(clean, (drawn >= self.keep + self.mask) & ~inserted, draws)
        is_masked = (drawn >= self.keep) & (drawn < self.keep + self.mask)
        masked = np.where(is_masked, self.mask_token, clean.tokens)
        noisy = repeated(TokenBatch(masked, clean.lengths), 1 + inserted.view(np.int8) - gone)
        tokens, origin = noisy.block.tokens, noisy.origin
        after = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        tokens[after] = self.unigrams.at(draws.tokens(noisy.block, after))
        origin[after] = -1
        return noisy


SHUFFLE, DELETE, REPLACE = range(3)


@dataclass(frozen=True)
class ShuffleNoise:
    """Shuffle words locally, delete words and replace words, in random order for each line.

    The probabilities of deletion and replacement are drawn for each line from a Beta distribution
    with mean `mean` and standard deviation `std`. A line is shuffled by sorting its words by
    position + N(0, `sigma`).
    """

    unigrams: Unigrams
    mean: float = option(0.15, "mean of the deletion and replacement probabilities", low=0, high=1)
    std: float = option(
        0.03, "standard deviation of the deletion and replacement probabilities", low=0, high=0.5
    )
    sigma: float = option(
        0.5, "standard deviation of position shifts; 0 disables shuffling", low=0, high=MAX_SHIFT
    )

    def __post_init__(self) -> None:
        check(self)
        if not 0 < self.std**2 < self.mean * (1 - self.mean):
            raise UsageError(
                f"There is no Beta distribution with `mean` {self.mean} and `std` {self.std}. "
                "Expected 0 < `mean` < 1 and 0 < `std` < sqrt(mean * (1 - mean))."
            )

    @cached_property
    def alpha_and_beta(self) -> tuple[float, float]:
        """Parameters a and b of the Beta distribution with mean `mean` and variance `std`^2.

        The mean is a / (a + b). The variance is ab / ((a + b)^2 (a + b + 1)).
        """
        total = self.mean * (1 - self.mean) / self.std**2 - 1
        return self.mean * total, (1 - self.mean) * total

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Shuffle, delete and replace words. The order of these steps is random for each line."""
        order = np.argsort([draws.lines() for _ in range(3)], axis=0)
        noisy = unchanged(clean)
        for step in range(3):
            noisy = noisy.then(partial(self._apply, order[step]), draws)
        return noisy

    @cached_property
    def shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cumulative distribution function of the Beta distribution, as values and arguments."""
        alpha, beta = self.alpha_and_beta
        reach = 30 * self.std
        if min(alpha, beta) < 1:  # the tail reaches a few times 1 / (alpha + beta)
            reach = max(reach, 40 / (alpha + beta))
        edges = np.linspace(max(0, self.mean - reach), min(1, self.mean + reach), 10_001)
        tail = np.geomspace(1e-12, 1e-4, 100)
        ends = [*[tail] * (alpha < 1), *[1 - tail] * (beta < 1)]  # where the density is infinite
        edges = np.unique(np.concatenate([edges, *ends]))
        middle = (edges[1:] + edges[:-1]) / 2
        if min(alpha, beta) >= 1:
            density = (alpha - 1) * np.log(middle) + (beta - 1) * np.log1p(-middle)
            masses = np.exp(density - density.max())
        else:
            # The density is infinite at 0 or at 1. Its infinite factor is integrated exactly.
            left = np.diff(edges**alpha) / alpha * (1 - middle) ** (beta - 1)
            right = -np.diff((1 - edges) ** beta) / beta * middle ** (alpha - 1)
            masses = np.where(middle < 0.5, left, right)
        up_to = np.append(0, np.cumsum(masses))
        return up_to / up_to[-1], edges

    def _apply(self, operation: NDArray[np.int64], block: TokenBatch, draws: Random) -> NoisedBatch:
        """Apply `operation[i]` to line i. At least one word of each line is kept."""
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
        origin = order[~gone]  # in a line with deletions, `order` is the identity
        return NoisedBatch(TokenBatch(tokens[origin], block.lengths_of(~gone)), origin)


@dataclass(frozen=True)
class NegativeExampleNoise:
    """Delete words, replace words with random words, and shuffle the remaining words locally.

    The noisy lines are negative examples for a classifier. Therefore, if no word in a line is
    deleted or replaced, a random word in the line is replaced.
    """

    unigrams: Unigrams
    delete: float = option(0.1, "probability that a word is deleted", low=0, high=1)
    replace: float = option(
        0.1, "probability that a word is replaced; delete + replace is at most 1", low=0, high=1
    )
    distance: float = option(
        3.0,
        "exclusive upper bound of the shuffle distance in words; 1 or less disables shuffling",
        low=0,
        high=MAX_SHIFT,
    )

    def __post_init__(self) -> None:
        check(self)
        total = self.delete + self.replace
        if total > 1:
            raise UsageError(f"`delete` + `replace` is {total:g}. Expected 1 or less.")

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Delete and replace words, then sort them by position + U(0, `distance`)."""
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
