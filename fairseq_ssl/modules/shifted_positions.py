"""Sinusoidal positions, shifted at random while training (SHAPE)."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.utils import make_positions
from torch import Tensor


class ShiftedSinusoidalPositions(SinusoidalPositionalEmbedding):
    """PE(i + k, m), the thesis' Eq. 6.2, with k ~ U{0, ..., `max_shift`} for each sequence.

    The shift is drawn anew at each training step from torch's generator, which fairseq
    seeds with the update number, so a resumed run draws what an unbroken one would have.
    Outside training k is `eval_offset`. Without shift or offset nothing is drawn and the
    result is that of the class below, bit for bit.
    """

    weights: Tensor
    """The table of sinusoids [rows, dim]; row `padding_idx` + i is that of position i."""

    def __init__(
        self,
        embedding_dim: int,
        padding_idx: int,
        max_shift: int,
        init_size: int,
        eval_offset: int = 0,
    ) -> None:
        super().__init__(embedding_dim, padding_idx, init_size + max(max_shift, eval_offset))
        self.max_shift = max_shift
        self.eval_offset = eval_offset
        # fairseq 0.12.2 keeps the table outside the buffers, where .to(device) misses it.
        table = self.weights
        del self.weights
        self.register_buffer("weights", table, persistent=False)

    @classmethod
    def replacing(
        cls, stock: SinusoidalPositionalEmbedding, max_shift: int, eval_offset: int = 0
    ) -> ShiftedSinusoidalPositions:
        """Build the shifted counterpart of `stock`, for the same lengths."""
        lengths = stock.weights.size(0)
        return cls(stock.embedding_dim, stock.padding_idx, max_shift, lengths, eval_offset)

    def forward(
        self,
        input: Tensor,
        incremental_state: Any | None = None,
        timestep: Tensor | None = None,
        positions: Any | None = None,
    ) -> Tensor:
        """Embed the positions of `input` [batch, time] as [batch, time, dim]; pads get zeros."""
        largest = self.max_shift if self.training else self.eval_offset
        if largest == 0 or (self.training and incremental_state is not None):
            stock: Tensor = super().forward(input, incremental_state, timestep, positions)
            return stock
        batch, time = input.shape
        smallest = 0 if self.training else self.eval_offset
        shift = torch.randint(smallest, largest + 1, (batch, 1), device=input.device)
        table = self._table(time + largest)
        if incremental_state is not None:  # one step: `input` holds all tokens so far
            return table[self.padding_idx + time + shift]
        index = make_positions(input, self.padding_idx) + shift * input.ne(self.padding_idx)
        return table[index]

    def _table(self, positions: int) -> Tensor:
        """Return the table [rows, dim], grown to hold at least this many positions."""
        rows = self.padding_idx + 1 + positions
        if rows > self.weights.size(0):
            table = self.get_embedding(rows, self.embedding_dim, self.padding_idx)
            self.weights = table.to(self.weights)
        return self.weights
