"""fairseq's self-attention, with relative distances in the place of positions."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_ssl.modules.relative_attention import relative_attention


class RelativeSelfAttention(MultiheadAttention):
    """Self-attention of Shaw et al. (2018): keys and values know how far off they are.

    Each layer has its tables of 2 `limit` + 1 distances, which its heads share; `one_table`
    serves keys and values with the same one.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float, limit: int, one_table: bool
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, self_attention=True)
        self.key_distances = _table(limit, self.head_dim)
        self.value_distances = self.key_distances if one_table else _table(limit, self.head_dim)

    @classmethod
    def replacing(
        cls, stock: MultiheadAttention, limit: int, one_table: bool
    ) -> RelativeSelfAttention:
        """Build the relative counterpart of `stock`, with its projections."""
        dropout = stock.dropout_module.p
        relative = cls(stock.embed_dim, stock.num_heads, dropout, limit, one_table)
        relative.dropout_module = stock.dropout_module
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(relative, name, getattr(stock, name))
        return relative

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        incremental_state: Any | None = None,
        need_weights: bool = False,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, None]:
        """Attend within `query` [time, batch, dim]; the weights are never returned."""
        time, batch, dim = query.shape
        q = self._by_head(self.q_proj(query) * self.scaling)
        k, v = self._by_head(self.k_proj(query)), self._by_head(self.v_proj(query))
        if incremental_state is not None:
            k, v, key_padding_mask = self._with_past(incremental_state, k, v, key_padding_mask)
        pads = None
        if key_padding_mask is not None:
            pads = key_padding_mask.bool().repeat_interleave(self.num_heads, 0)
        dropping = self.training or self.dropout_module.apply_during_inference
        out = relative_attention(
            *(q, k, v, self.key_distances, self.value_distances),
            future=attn_mask,
            pads=pads,
            dropout=self.dropout_module.p if dropping else 0.0,
        )
        out = out.transpose(0, 1).reshape(time, batch, dim)
        return self.out_proj(out), None

    def _by_head(self, projected: Tensor) -> Tensor:
        """View [time, batch, dim] as [batch * heads, time, head_dim]."""
        return projected.view(projected.size(0), -1, self.head_dim).transpose(0, 1)

    def _with_past(
        self, state: Any, k: Tensor, v: Tensor, pads: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Put the keys and values of earlier steps before these, and remember all of them."""
        past = self._get_input_buffer(state)
        if "prev_key" in past:
            k = torch.cat([past["prev_key"].flatten(0, 1), k], dim=1)
            v = torch.cat([past["prev_value"].flatten(0, 1), v], dim=1)
        batch = k.size(0) // self.num_heads
        pads = self._append_prev_key_padding_mask(
            pads, past.get("prev_key_padding_mask"), batch, k.size(1), static_kv=False
        )
        by_sentence = (batch, self.num_heads, -1, self.head_dim)
        past |= {"prev_key": k.view(by_sentence), "prev_value": v.view(by_sentence)}
        self._set_input_buffer(state, past | {"prev_key_padding_mask": pads})
        return k, v, pads


def _table(limit: int, dim: int) -> nn.Parameter:
    """Return a fresh table [2 `limit` + 1, dim]."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * limit + 1, dim)))
