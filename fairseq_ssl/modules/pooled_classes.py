"""Scores of classes from the states of a text's words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

MEAN, FIRST = "mean", "first"
POOLS = (MEAN, FIRST)


class PooledClasses(nn.Module):
    """z = W ReLU(W_h h + b_h) + b, of the mean h of a text's states, or of its first state."""

    def __init__(self, dim: int, inner_dim: int, classes: int, pool: str, dropout: float) -> None:
        super().__init__()
        self.pool = pool
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(dim, inner_dim)
        self.output = nn.Linear(inner_dim, classes)

    def forward(self, states: Tensor, is_word: Tensor) -> Tensor:
        """Return logits [batch, classes].

        Args:
            states: [batch, time, dim]
            is_word: what of them counts [batch, time]; every text has something
        """
        if self.pool == FIRST:
            pooled = states[:, 0]
        else:
            shares = is_word.type_as(states)
            shares = shares / shares.sum(1, keepdim=True)
            pooled = torch.einsum("bt,btd->bd", shares, states.masked_fill(~is_word[..., None], 0))
        logits: Tensor = self.output(self.hidden(self.dropout(pooled)).relu())
        return logits
