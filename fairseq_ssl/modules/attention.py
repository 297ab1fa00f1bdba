"""Attention of queries to keys and values that may come from elsewhere, and be kept."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class KeysValues(NamedTuple):
    """What positions offer to be attended to, each [batch, heads, time, dim / heads]."""

    keys: Tensor
    values: Tensor

    def of_rows(self, rows: Tensor) -> KeysValues:
        """Return those of the sentences that `rows` [new batch] names."""
        return KeysValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def before(self, others: KeysValues) -> KeysValues:
        """Return these and, after them in time, `others`."""
        return KeysValues(*(torch.cat(pair, dim=2) for pair in zip(self, others, strict=True)))


class Attention(nn.Module):
    """The four projections of an attention; whom each query attends to is the caller's affair."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as fairseq does."""
        for part in self.in_proj.weight.chunk(3):
            nn.init.xavier_uniform_(part, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def within(self, states: Tensor) -> tuple[Tensor, KeysValues]:
        """Return the queries, and the keys and values, of `states` [batch, time, dim]."""
        query, key, value = self._by_head(self.in_proj(states), 3)
        return query, KeysValues(key, value)

    def queries(self, states: Tensor) -> Tensor:
        """Return the queries of `states` [batch, time, dim] alone."""
        dim = self.out_proj.in_features
        projected = functional.linear(states, self.in_proj.weight[:dim], self.in_proj.bias[:dim])
        return self._by_head(projected, 1)[0]

    def keys_values(self, states: Tensor) -> KeysValues:
        """Return the keys and values of `states` [batch, time, dim] alone."""
        dim = self.out_proj.in_features
        projected = functional.linear(states, self.in_proj.weight[dim:], self.in_proj.bias[dim:])
        return KeysValues(*self._by_head(projected, 2))

    def moved(self, there: KeysValues, by: Tensor) -> KeysValues:
        """Return what `there` had been, had the vector `by` [dim] been added to its states."""
        dim = self.out_proj.in_features
        moves = functional.linear(by, self.in_proj.weight[dim:]).view(2, 1, self.heads, 1, -1)
        return KeysValues(there.keys + moves[0], there.values + moves[1])

    def attend(self, query: Tensor, there: KeysValues, seen: Tensor | None = None) -> Tensor:
        """Return what `query` [batch, heads, time, dim / heads] finds, [batch, time, dim].

        Args:
            query: as `within` or `queries` return it
            there: keys and values to attend to
            seen: [batch or 1, 1, time or 1, keys], where a query may look; None: everywhere
        """
        dropout = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(query, *there, seen, dropout)
        out: Tensor = self.out_proj(found.transpose(1, 2).flatten(2))
        return out

    def _by_head(self, projected: Tensor, parts: int) -> Tensor:
        """View [batch, time, parts * dim] as [parts, batch, heads, time, dim / heads]."""
        batch, time, _ = projected.shape
        return projected.view(batch, time, parts, self.heads, -1).permute(2, 0, 3, 1, 4)
