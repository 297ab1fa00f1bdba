"""Where in the source to copy from, and whether to (PoDA, appendix A.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class CopyAttention(nn.Module):
    """The copy attention alpha and what p_gen is the sigmoid of (equation 3).

    It has no dropout: alpha is a distribution over the source, in training too.
    """

    def __init__(self, dim: int, encoder_dim: int, heads: int = 1) -> None:
        """Make the projections.

        Args:
            dim: of the decoder's output
            encoder_dim: of the encoder's output
            heads: whose distributions alpha is the mean of; it must divide `dim`
        """
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        # a bias of the keys would add the same to all scores of a query
        self.key = nn.Linear(encoder_dim, dim, bias=False)
        self.gate = nn.Linear(encoder_dim, 1)
        for linear in (self.query, self.key, self.gate):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.query.bias)
        nn.init.zeros_(self.gate.bias)

    def forward(
        self, states: Tensor, encoded: Tensor, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend to the source.

        The keys are never made: a query is taken to the side of the encoder instead, so that
        writing token by token there is nothing to keep.

        Args:
            states: [batch, time, dim], the output of the decoder
            encoded: [batch, source time, encoder dim], that of the encoder's top layer
            padding: [batch, source time], True on padding

        Returns:
            log alpha [batch, time, source time], in single precision or better, and the scores
            [batch, time] of generating against copying
        """
        batch, time, dim = states.shape
        query = self.query(states).view(batch, time, self.heads, -1)
        query = query * (dim // self.heads) ** -0.5
        key = self.key.weight.view(self.heads, dim // self.heads, -1)
        there = torch.einsum("bthd,hde->bthe", query, key.type_as(query)).flatten(1, 2)
        scores = torch.bmm(there, encoded.transpose(1, 2))
        scores = scores.view(batch, time, self.heads, -1)
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], -math.inf)
        precise = torch.promote_types(scores.dtype, torch.float32)
        by_head = torch.log_softmax(scores, dim=-1, dtype=precise)
        attention = by_head.squeeze(2)
        if self.heads > 1:
            attention = by_head.logsumexp(dim=2) - math.log(self.heads)
        pooled = torch.bmm(attention.exp().type_as(encoded), encoded)
        return attention, self.gate(pooled).squeeze(-1)
