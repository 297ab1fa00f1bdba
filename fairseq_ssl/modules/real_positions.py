"""Which positions of a padded batch count, and the states of those alone."""

from __future__ import annotations

import torch
from torch import Tensor


class RealPositions:
    """Turns states of a padded batch into those that count, row under row, and back.

    What works on single positions works on the rows, so that padding neither costs nor counts;
    what looks to the sides works on the batch, where all else is zero.
    """

    def __init__(self, real: Tensor, is_padded: bool = True) -> None:
        """Set the positions.

        Args:
            real: true for those that count [batch, time]
            is_padded: whether there are any others
        """
        self.batch, self.time = real.shape
        self.places = real.flatten().nonzero().squeeze(1) if is_padded else None

    @classmethod
    def of_lengths(cls, lengths: Tensor, time: int) -> RealPositions:
        """Return the first `lengths` [batch] of `time` positions."""
        return cls(torch.arange(time, device=lengths.device) < lengths.unsqueeze(1))

    @classmethod
    def all_of(cls, tokens: Tensor) -> RealPositions:
        """Return every position of `tokens` [batch, time]."""
        return cls(tokens, is_padded=False)

    def rows(self, states: Tensor) -> Tensor:
        """Return the states that count [rows, dim] of a batch [batch, time, dim]."""
        flat = states.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)

    def spread(self, rows: Tensor) -> Tensor:
        """Return a batch [batch, time, dim] of `rows` [rows, dim], and zeros."""
        if self.places is None:
            flat = rows
        else:
            blank = rows.new_zeros(self.batch * self.time, rows.size(1))
            flat = blank.index_copy(0, self.places, rows)
        return flat.view(self.batch, self.time, -1)
