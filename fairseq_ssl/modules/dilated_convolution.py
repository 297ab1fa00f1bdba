"""Convolutions with holes, over a whole sequence or one step at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class DilatedConvolution(nn.Module):
    """Each position sees `kernel` positions, `dilation` apart.

    They lie around it, or if it is causal, the last of them is the position itself. Beyond the
    ends there are zeros. The weight is that of one linear map of all that is seen, the earliest
    position first.
    """

    def __init__(
        self, dim: int, kernel: int, dilation: int, is_causal: bool, bias: bool = True
    ) -> None:
        super().__init__()
        assert is_causal or kernel % 2, "an even kernel has no middle"
        self.dim = dim
        self.kernel = kernel
        self.dilation = dilation
        self.is_causal = is_causal
        self.linear = nn.Linear(kernel * dim, dim, bias=bias)

    @property
    def reach(self) -> int:
        """How far apart the first and the last position seen are."""
        return (self.kernel - 1) * self.dilation

    def forward(self, states: Tensor) -> Tensor:
        """Convolve states [batch, time, dim]; what is padding must be zero."""
        before = self.reach if self.is_causal else self.reach // 2
        time = states.size(1)
        padded = functional.pad(states, (0, 0, before, self.reach - before))
        seen = [padded.narrow(1, tap * self.dilation, time) for tap in range(self.kernel)]
        convolved: Tensor = self.linear(torch.cat(seen, 2))
        return convolved

    def step(self, state: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the next position [rows, dim] of a causal convolution.

        Args:
            state: at that position [rows, dim]
            past: what was there before [rows, reach, dim], the state of step t at t modulo the
                reach; zeros to begin with, and changed here
            step: how many positions there were before
        """
        slots = [(step + tap * self.dilation) % self.reach for tap in range(self.kernel - 1)]
        seen = [past[:, slot] for slot in slots]
        convolved: Tensor = self.linear(torch.cat([*seen, state], 1))
        if self.reach:
            past[:, step % self.reach] = state
        return convolved
