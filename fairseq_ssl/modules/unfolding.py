"""How many columns an encoder has for a source: as many as its target is likely to need."""

from __future__ import annotations

import torch
from torch import Tensor, nn

UNKNOWN = -1.0
SLOPES = 100
"""Slopes are hundredths, so that every type of number holds them as they are."""


class Unfolding(nn.Module):
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
        slope, offset = self.line.float().round().long()
        columns = torch.div(slope * lengths + SLOPES - 1, SLOPES, rounding_mode="floor") + offset
        return torch.maximum(columns, lengths)

    @property
    def is_known(self) -> bool:
        """Whether there is a line."""
        return bool(self.line[0] >= 0)
