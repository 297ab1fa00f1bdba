"""How many columns an encoder has for a source: as many as its target is likely to need."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_ssl.modules.exact_buffers import ExactBuffers

UNKNOWN = -1.0
SLOPES = 100
"""Slopes are hundredths, so that a product with a length is exact."""


class Unfolding(ExactBuffers):
    """The line a |s| + b of ByteNet's dynamic unfolding, kept with the weights.

    A source has at least as many columns as tokens.
    """

    line: Tensor

    def __init__(self, slope: float = UNKNOWN, offset: float = 0.0) -> None:
        """Set a and b; without, a checkpoint must bring them."""
        super().__init__()
        hundredths = slope if slope == UNKNOWN else float(round(SLOPES * slope))
        self.register_buffer("line", torch.tensor([hundredths, offset]))

    def forward(self, lengths: Tensor) -> Tensor:
        """Return the number of columns for sources of `lengths` [batch], their ends counted."""
        slope, offset = self.line.round().long()
        columns = torch.div(slope * lengths + SLOPES - 1, SLOPES, rounding_mode="floor") + offset
        return torch.maximum(columns, lengths)

    @property
    def is_known(self) -> bool:
        """Whether there is a line."""
        return bool(self.line[0] >= 0)
