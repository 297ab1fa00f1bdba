"""Attention with clipped distances (Shaw et al., 2018), without a [time, time, dim] tensor.

With keys k, values v and two tables a of 2L + 1 rows, one for each distance -L, ..., L:

    s_ij = q_i . (k_j + a^K_{clip(j - i)})        o_i = sum_j p_ij (v_j + a^V_{clip(j - i)})

The first needs the 2L + 1 products of q_i with the table, each laid where its distance is
(:func:`spread`); the second needs the probability that each distance got (:func:`collect`),
times the table. The two are each other's adjoint, so the gradient is made of them as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = {"cpu": 2**19, "cuda": 2**26}
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
    """Cut the rows into slices of about `BLOCK` scores each."""
    size = BLOCK.get(q.device.type, BLOCK["cuda"])
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
