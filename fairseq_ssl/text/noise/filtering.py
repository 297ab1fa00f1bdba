"""Noise for a filter to learn from: delete, replace, shuffle (thesis, section 5.5.1).

The thesis takes it from Wang et al. (2018) and does not tell the rates; the defaults are this
project's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.noise.block import (
    Block,
    Noisy,
    one_of_each,
    sorted_by_place,
    spare_one,
)
from fairseq_ssl.text.noise.draws import Draws
from fairseq_ssl.text.noise.unigrams import Unigrams
from fairseq_ssl.text.specs import option


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

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Delete and replace, then sort by place + U(0, distance)."""
        drawn = draws.tokens(clean)
        gone = spare_one(clean, drawn < self.delete, draws)
        hit = ~gone & (drawn < self.delete + self.replace)
        chosen = one_of_each(clean, draws)
        spared = (clean.lengths > 0) & (clean.lengths_of(hit | gone) == 0)
        hit[chosen[spared]] = True
        tokens = clean.tokens.copy()
        at = np.flatnonzero(hit)
        tokens[at] = self.unigrams.at(draws.tokens(clean, at))
        order = sorted_by_place(clean, self.distance * draws.tokens(clean))
        origin = order[~gone[order]]
        return Noisy(Block(tokens[origin], clean.lengths_of(~gone)), origin)
