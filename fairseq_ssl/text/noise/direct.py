"""DirectNoise: keep, mask, delete, insert (thesis, section 4.3.2, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.noise.block import Block, Noisy, repeated, spare_one
from fairseq_ssl.text.noise.draws import Draws
from fairseq_ssl.text.noise.unigrams import Unigrams
from fairseq_ssl.text.specs import option


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

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Return X of algorithm 2 for each Y of the block."""
        half = (1 - self.keep - self.mask) / 2
        drawn = draws.tokens(clean)
        inserted = drawn >= self.keep + self.mask + half
        gone = spare_one(clean, (drawn >= self.keep + self.mask) & ~inserted, draws)
        masked = clean.tokens.copy()
        masked[(drawn >= self.keep) & (drawn < self.keep + self.mask)] = self.mask_token
        noisy = repeated(Block(masked, clean.lengths), 1 + inserted.view(np.int8) - gone)
        tokens, origin = noisy.block.tokens, noisy.origin
        after = np.flatnonzero(origin[1:] == origin[:-1]) + 1
        tokens[after] = self.unigrams.at(draws.tokens(noisy.block, after))
        origin[after] = -1
        return noisy
