"""Positions: relative (Shaw et al., 2018) and shifted sinusoidal (SHAPE)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from fairseq.modules import MultiheadAttention, SinusoidalPositionalEmbedding
from fairseq.utils import make_positions
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

BLOCK_ROWS = {"cpu": 2**19, "cuda": 2**26}
"""Scores held at a time: on a CPU as many as stay in its cache."""


def spread(by_distance: Tensor, keys: int) -> Tensor:
    """Lay [rows, queries, 2L + 1] out as [rows, queries, keys]: (i, j) gets that of clip(j - i).

    The last query stands at the last key, as it does in incremental decoding too.
    """
    _, queries, distances = by_distance.shape
    limit, first = distances // 2, keys - queries
    right = _apart(1, queries, keys, by_distance.device)
    right = torch.nn.functional.pad(right, (limit, limit))
    wide = torch.where(right, by_distance[..., -1:], by_distance[..., :1])
    _band(wide, first, distances).copy_(by_distance)
    return wide[..., limit : limit + keys]


def collect(by_key: Tensor, limit: int) -> Tensor:
    """Sum [rows, queries, keys] over the keys at each distance: [rows, queries, 2L + 1]."""
    _, queries, keys = by_key.shape
    wide = torch.nn.functional.pad(by_key, (limit, limit))
    by_distance = _band(wide, keys - queries, 2 * limit + 1).clone()
    if keys > limit:
        by_distance[..., -1] = (by_key * _apart(limit, queries, keys, by_key.device)).sum(-1)
        left = ~_apart(1 - limit, queries, keys, by_key.device)
        by_distance[..., 0] = (by_key * left).sum(-1)
    return by_distance


def _apart(distance: int, queries: int, keys: int, device: Any) -> Tensor:
    """Tell where j - i >= `distance`, in [queries, keys]."""
    everywhere = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return everywhere.triu(keys - queries + distance)


def _band(wide: Tensor, first: int, distances: int) -> Tensor:
    """View the entries of [rows, queries, L + keys + L] that are within L of the diagonal."""
    rows, queries, _ = wide.shape
    row, query, key = wide.stride()
    start = wide.storage_offset() + first * key
    return wide.as_strided((rows, queries, distances), (row, query + key, key), start)


class Masks(NamedTuple):
    """What a query may not see, and which probabilities dropout takes."""

    future: Tensor | None
    """Added to the scores [queries, keys]: minus infinity where a key lies in the future."""
    pads: Tensor | None
    """True at the keys [rows, keys] that are pads."""
    dropped: Tensor | None
    """True at the probabilities [rows, queries, keys] that become zero."""
    dropout: float


def relative_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_table: Tensor,
    value_table: Tensor,
    future: Tensor | None = None,
    pads: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attend from `query` [rows, queries, dim], scaled already, to keys and values of that form.

    A row is one head of one sentence; the tables [2L + 1, dim] serve all of them. Scores are
    held for some rows at a time and computed anew for the gradient: what is kept in between
    grows with the length, not with its square, but for a byte a probability under dropout.
    """
    dropped = None
    if dropout > 0:
        dropped = query.new_empty(*query.shape[:2], key.size(1), dtype=torch.bool)
        dropped.bernoulli_(dropout)
    masks = Masks(future, pads, dropped, dropout)
    tables = key_table.to(query.dtype), value_table.to(query.dtype)
    out: Tensor = _RelativeAttention.apply(  # type: ignore[no-untyped-call]
        query, key, value, *tables, masks
    )
    return out


class _RelativeAttention(torch.autograd.Function):
    """The equations above and their gradient, some rows at a time."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        """Return the sums o [rows, queries, dim]."""
        key_table, value_table, masks = rest
        ctx.save_for_backward(q, k, v, key_table, value_table, *masks[:3])
        ctx.dropout = masks.dropout
        out = torch.empty_like(q)
        for rows in _blocks(q, k):
            kept = _drop(_probabilities(q[rows], k[rows], key_table, masks, rows), masks, rows)
            near = collect(kept, key_table.size(0) // 2)
            out[rows] = torch.baddbmm(near @ value_table, kept, v[rows])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys, values and tables."""
        q, k, v, key_table, value_table, future, pads, dropped = ctx.saved_tensors
        masks, limit = Masks(future, pads, dropped, ctx.dropout), key_table.size(0) // 2
        dq, dk, dv, d_key_table, d_value_table = map(torch.zeros_like, ctx.saved_tensors[:5])
        for rows in _blocks(q, k):
            p = _probabilities(q[rows], k[rows], key_table, masks, rows)
            kept = _drop(p, masks, rows)
            dv[rows] = kept.transpose(1, 2) @ grad[rows]
            d_value_table += _summed_product(collect(kept, limit), grad[rows])
            dp = torch.baddbmm(
                spread(grad[rows] @ value_table.T, k.size(1)), grad[rows], v[rows].transpose(1, 2)
            )
            ds = _softmax_gradient(_drop(dp, masks, rows), p)
            near = collect(ds, limit)
            dq[rows] = torch.baddbmm(near @ key_table, ds, k[rows])
            dk[rows] = ds.transpose(1, 2) @ q[rows]
            d_key_table += _summed_product(near, q[rows])
        return dq, dk, dv, d_key_table, d_value_table, None


def _blocks(q: Tensor, k: Tensor) -> list[slice]:
    """Cut the rows into slices of about `BLOCK_ROWS` scores each."""
    size = BLOCK_ROWS.get(q.device.type, BLOCK_ROWS["cuda"])
    step = max(1, size // max(1, q.size(1) * k.size(1)))
    return [slice(start, start + step) for start in range(0, q.size(0), step)]


def _probabilities(q: Tensor, k: Tensor, key_table: Tensor, masks: Masks, rows: slice) -> Tensor:
    """Return p [rows, queries, keys], the softmax of s over the keys."""
    scores = torch.baddbmm(spread(q @ key_table.T, k.size(1)), q, k.transpose(1, 2))
    if masks.future is not None:
        scores += masks.future
    if masks.pads is not None:
        scores.masked_fill_(masks.pads[rows, None], -torch.inf)
    return scores.softmax(-1, dtype=torch.promote_types(q.dtype, torch.float32)).to(q.dtype)


def _drop(p: Tensor, masks: Masks, rows: slice) -> Tensor:
    """Return `p` after dropout; the gradient goes through the same."""
    if masks.dropped is None:
        return p
    return p.masked_fill(masks.dropped[rows], 0).mul_(1 / (1 - masks.dropout))


def _softmax_gradient(dp: Tensor, p: Tensor) -> Tensor:
    """Return p (dp - sum_j p dp), the gradient of the scores."""
    weighted = dp.mul_(p)
    return weighted.sub_(p * weighted.sum(-1, keepdim=True))


def _summed_product(by_distance: Tensor, vectors: Tensor) -> Tensor:
    """Return the gradient of a table: sum over rows and queries, [2L + 1, dim]."""
    return by_distance.flatten(0, 1).T @ vectors.flatten(0, 1)


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
