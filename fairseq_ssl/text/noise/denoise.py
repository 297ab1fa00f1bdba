"""The noise of PoDA: shuffle, delete and replace, in random order (section 2.2, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.noise.block import Block, Noisy, sorted_by_place, spare_one, untouched
from fairseq_ssl.text.noise.draws import Draws
from fairseq_ssl.text.noise.unigrams import Unigrams
from fairseq_ssl.text.specs import option

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

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Apply the three operations to each line, in an order of its own."""
        order = np.argsort([draws.lines() for _ in range(3)], axis=0)
        noisy = untouched(clean)
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

    def _one_each(self, operation: NDArray[np.int64], block: Block, draws: Draws) -> Noisy:
        """Apply to each line its own one of the operations; no line is emptied."""
        of_token = operation[block.line]
        share = np.interp(draws.lines(), *self.shares)
        hit = draws.tokens(block) < share[block.line]
        gone = spare_one(block, hit & (of_token == DELETE), draws)
        tokens = block.tokens.copy()
        replaced = np.flatnonzero(hit & (of_token == REPLACE))
        tokens[replaced] = self.unigrams.at(draws.tokens(block, replaced))
        shuffled = np.flatnonzero(of_token == SHUFFLE)
        shift = self.sigma * draws.normal(block, shuffled)
        order = np.arange(len(tokens))
        order[shuffled] = sorted_by_place(block, shift, shuffled)
        origin = order[~gone]  # no line is shuffled and loses words
        return Noisy(Block(tokens[origin], block.lengths_of(~gone)), origin)
