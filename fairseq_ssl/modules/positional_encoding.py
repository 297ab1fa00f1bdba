"""Relative attention (Shaw et al., 2018) and shifted sinusoidal positions (SHAPE).

Relative attention adds a vector to each key and value. The vector depends on the distance between
query and key, clipped to -L to L, and is stored in a table [2L + 1, dim]. `expand_distances`
converts scores by distance to scores by key, and `sum_by_distance` is its adjoint. A few rows are
processed at a time, so that memory is linear in the length, except for the dropout mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from fairseq.modules import MultiheadAttention, SinusoidalPositionalEmbedding
from fairseq.utils import make_positions
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

MAX_SCORES = {"cpu": 2**19, "cuda": 2**26}
"""Maximum number of scores in a block, by device type. A CPU block fits into the cache."""
CACHED_MASKS = 4
"""Number of masks that each mask function caches. All encoder layers use the same masks."""


def expand_distances(by_distance: Tensor, keys: int) -> Tensor:
    """Convert scores by distance [rows, queries, 2L + 1] to scores by key [rows, queries, keys].

    The score for query i and key j is the score for the distance clip(j - i, -L, L). The last query
    is at the position of the last key, even in incremental decoding.
    """
    _, queries, distances = by_distance.shape
    limit, first = distances // 2, keys - queries
    right = _is_right(limit, queries, keys, by_distance.device)
    wide = torch.where(right, by_distance[..., -1:], by_distance[..., :1])
    _band(wide, first, distances).copy_(by_distance)
    return wide[..., limit : limit + keys]


def sum_by_distance(by_key: Tensor, limit: int) -> Tensor:
    """Convert scores by key [rows, queries, keys] to scores by distance [rows, queries, 2L + 1].

    Scores with the same clipped distance are summed. `limit` is L.
    """
    _, queries, keys = by_key.shape
    wide = torch.nn.functional.pad(by_key, (limit, limit))
    by_distance = _band(wide, keys - queries, 2 * limit + 1).clone()
    if keys > limit:
        ends = _ends(limit, queries, keys, by_key.device, by_key.dtype)
        by_distance[..., :: 2 * limit] = (by_key.transpose(0, 1) @ ends).transpose(0, 1)
    return by_distance


@lru_cache(maxsize=CACHED_MASKS)
def _is_right(limit: int, queries: int, keys: int, device: Any) -> Tensor:
    """Return a mask [queries, L + keys + L], True at keys after the query, False in the margins."""
    with torch.inference_mode(False):
        right = _is_apart(1, queries, keys, device)
        return torch.nn.functional.pad(right, (limit, limit))


@lru_cache(maxsize=CACHED_MASKS)
def _ends(limit: int, queries: int, keys: int, device: Any, dtype: torch.dtype) -> Tensor:
    """Return two masks [queries, keys, 2]: 1 where j - i <= -L, and 1 where j - i >= L."""
    with torch.inference_mode(False):
        right = _is_apart(limit, queries, keys, device)
        left = ~_is_apart(1 - limit, queries, keys, device)
        return torch.stack((left, right), -1).to(dtype)


def _is_apart(distance: int, queries: int, keys: int, device: Any) -> Tensor:
    """Return a mask [queries, keys], True for pairs (i, j) with j - i >= `distance`."""
    ones = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return ones.triu(keys - queries + distance)


def _band(wide: Tensor, first: int, distances: int) -> Tensor:
    """Return a view [rows, queries, 2L + 1] of the scores within L keys of the diagonal.

    Args:
        wide: scores by key, padded with L columns on both sides.
        first: position of the first query.
        distances: 2L + 1, the width of the view.
    """
    rows, queries, _ = wide.shape
    row, query, key = wide.stride()
    start = wide.storage_offset() + first * key
    return wide.as_strided((rows, queries, distances), (row, query + key, key), start)


class AttentionMasks(NamedTuple):
    """Masks and dropout probability for relative attention."""

    future: Tensor | None
    """[queries, keys], additive mask with minus infinity for future keys, or None for no mask."""
    pads: Tensor | None
    """[rows, keys], True at padding, or None for no padding."""
    dropped: Tensor | None
    """[rows, queries, keys], True where dropout sets probabilities to 0, or None for no dropout."""
    dropout: float
    """Dropout probability. Kept probabilities are divided by 1 minus this number."""


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
    """Return the attention output [rows, queries, dim].

    A row is one head of one sentence. Scores are computed for a few rows at a time and recomputed
    in the backward pass. Only the memory of the dropout mask, one byte per probability, is
    quadratic in the length.

    Args:
        query: [rows, queries, dim], already scaled by dim^-0.5.
        key: [rows, keys, dim].
        value: [rows, keys, dim].
        key_table: [2L + 1, dim], vectors added to the keys, by distance.
        value_table: [2L + 1, dim], vectors added to the values, by distance.
        future: see `AttentionMasks`.
        pads: see `AttentionMasks`.
        dropout: dropout probability.
    """
    dropped = None
    if dropout > 0:
        dropped = query.new_empty(*query.shape[:2], key.size(1), dtype=torch.bool)
        dropped.bernoulli_(dropout)
    masks = AttentionMasks(future, pads, dropped, dropout)
    tables = key_table.to(query.dtype), value_table.to(query.dtype)
    out: Tensor = _RelativeAttention.apply(  # type: ignore[no-untyped-call]
        query, key, value, *tables, masks
    )
    return out


class _RelativeAttention(torch.autograd.Function):
    """Relative attention and its gradient, computed for a few rows at a time."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        """Return the attention output [rows, queries, dim]."""
        key_table, value_table, masks = rest
        ctx.save_for_backward(q, k, v, key_table, value_table, *masks[:3])
        ctx.dropout = masks.dropout
        outputs = []
        for rows in _blocks(q, k):
            kept = _drop(_probabilities(q[rows], k[rows], key_table, masks, rows), masks, rows)
            near = sum_by_distance(kept, key_table.size(0) // 2)
            outputs.append(torch.baddbmm(near @ value_table, kept, v[rows]))
        return _joined(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients with respect to queries, keys, values and tables."""
        q, k, v, key_table, value_table, future, pads, dropped = ctx.saved_tensors
        masks, limit = AttentionMasks(future, pads, dropped, ctx.dropout), key_table.size(0) // 2
        of_rows, of_tables = [], []
        for rows in _blocks(q, k):
            p = _probabilities(q[rows], k[rows], key_table, masks, rows)
            kept = _drop(p, masks, rows)
            dv = kept.transpose(1, 2) @ grad[rows]
            d_value_table = _table_gradient(sum_by_distance(kept, limit), grad[rows])
            dp = torch.baddbmm(
                expand_distances(grad[rows] @ value_table.T, k.size(1)),
                grad[rows],
                v[rows].transpose(1, 2),
            )
            ds = _softmax_gradient(_drop(dp, masks, rows), p)
            near = sum_by_distance(ds, limit)
            dq = torch.baddbmm(near @ key_table, ds, k[rows])
            dk = ds.transpose(1, 2) @ q[rows]
            of_rows.append((dq, dk, dv))
            of_tables.append((_table_gradient(near, q[rows]), d_value_table))
        joined = [_joined(parts) for parts in zip(*of_rows, strict=True)]
        return *joined, *(sum(parts) for parts in zip(*of_tables, strict=True)), None


def _joined(blocks: Sequence[Tensor]) -> Tensor:
    """Concatenate blocks of rows. A single block is not copied."""
    return blocks[0] if len(blocks) == 1 else torch.cat(tuple(blocks))


def _blocks(q: Tensor, k: Tensor) -> list[slice]:
    """Split the rows into slices with at most `MAX_SCORES` scores, or with a single row."""
    size = MAX_SCORES.get(q.device.type, MAX_SCORES["cuda"])
    step = max(1, size // max(1, q.size(1) * k.size(1)))
    return [slice(start, start + step) for start in range(0, max(1, q.size(0)), step)]


def _probabilities(
    q: Tensor, k: Tensor, key_table: Tensor, masks: AttentionMasks, rows: slice
) -> Tensor:
    """Return the probabilities [rows, queries, keys] before dropout for the slice `rows`."""
    scores = torch.baddbmm(expand_distances(q @ key_table.T, k.size(1)), q, k.transpose(1, 2))
    if masks.future is not None:
        scores += masks.future
    if masks.pads is not None:
        scores.masked_fill_(masks.pads[rows, None], -torch.inf)
    return scores.softmax(-1, dtype=torch.promote_types(q.dtype, torch.float32)).to(q.dtype)


def _drop(p: Tensor, masks: AttentionMasks, rows: slice) -> Tensor:
    """Apply the dropout mask to probabilities or their gradients. Rescale the kept values."""
    if masks.dropped is None:
        return p
    return p.masked_fill(masks.dropped[rows], 0).mul_(1 / (1 - masks.dropout))


def _softmax_gradient(dp: Tensor, p: Tensor) -> Tensor:
    """Return the gradient with respect to the scores, p (dp - sum_j p dp). `dp` is overwritten."""
    weighted = dp.mul_(p)
    return weighted.sub_(p * weighted.sum(-1, keepdim=True))


def _table_gradient(by_distance: Tensor, vectors: Tensor) -> Tensor:
    """Return a table's gradient [2L + 1, dim], summed over rows and queries."""
    return by_distance.flatten(0, 1).T @ vectors.flatten(0, 1)


class RelativeSelfAttention(MultiheadAttention):
    """Self-attention with relative positions (Shaw et al., 2018).

    The heads of a layer share two tables [2 `limit` + 1, head_dim], one for keys and one for
    values. If `one_table` is True, keys and values share a single table.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float, limit: int, one_table: bool
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, self_attention=True)
        self.key_distances = _table(limit, self.head_dim)
        self.value_distances = self.key_distances if one_table else _table(limit, self.head_dim)

    @classmethod
    def from_stock(
        cls, stock: MultiheadAttention, limit: int, one_table: bool
    ) -> RelativeSelfAttention:
        """Build relative attention with the projections and dropout of fairseq's module `stock`."""
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
        attn_mask: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Return the self-attention output [time, batch, dim], and None for attention weights.

        `key`, `value` and any further keyword arguments are ignored.
        """
        time, batch, dim = query.shape
        q = self._split_heads(self.q_proj(query) * self.scaling)
        k, v = self._split_heads(self.k_proj(query)), self._split_heads(self.v_proj(query))
        if incremental_state is not None:
            k, v, key_padding_mask = self._append_to_cache(
                incremental_state, k, v, key_padding_mask
            )
        pads = None
        if key_padding_mask is not None:
            pads = key_padding_mask.bool().repeat_interleave(self.num_heads, 0)
        uses_dropout = self.training or self.dropout_module.apply_during_inference
        out = relative_attention(
            *(q, k, v, self.key_distances, self.value_distances),
            future=attn_mask,
            pads=pads,
            dropout=self.dropout_module.p if uses_dropout else 0.0,
        )
        out = out.transpose(0, 1).reshape(time, batch, dim)
        return self.out_proj(out), None

    def _split_heads(self, projected: Tensor) -> Tensor:
        """View [time, batch, dim] as [batch * heads, time, head_dim]."""
        return projected.view(projected.size(0), -1, self.head_dim).transpose(0, 1)

    def _append_to_cache(
        self, state: Any, k: Tensor, v: Tensor, pads: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Append keys, values and padding mask to the cache of earlier steps. Return the cache."""
        past = self._get_input_buffer(state)
        if "prev_key" in past:
            k = torch.cat([past["prev_key"].flatten(0, 1), k], dim=1)
            v = torch.cat([past["prev_value"].flatten(0, 1), v], dim=1)
        batch = k.size(0) // self.num_heads
        pads = self._append_prev_key_padding_mask(
            pads, past.get("prev_key_padding_mask"), batch, k.size(1), static_kv=False
        )
        shape = (batch, self.num_heads, -1, self.head_dim)
        past |= {"prev_key": k.view(shape), "prev_value": v.view(shape)}
        self._set_input_buffer(state, past | {"prev_key_padding_mask": pads})
        return k, v, pads


def _table(limit: int, dim: int) -> nn.Parameter:
    """Return a new table [2 `limit` + 1, dim] with Xavier initialization."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * limit + 1, dim)))


class LastShift:
    """The shifts of an encoder's last batch, which the decoder can reuse."""

    value: Tensor | None = None
    """[batch, 1], the shifts in tokens, or None if the batch was not shifted."""


class ShiftedSinusoidalPositions(SinusoidalPositionalEmbedding):
    """Sinusoidal positions with a random shift for each sequence (Kiyono, 2022, equation 6.2).

    The embedding of position i is PE(i + k, m) in dimension m, with k ~ U{0, ..., K}.

    The shift k is drawn at each training step from torch's generator, which fairseq seeds with the
    update number, so resumed runs draw the same shifts. In evaluation, k is `eval_offset`. If
    k is always 0, the output equals the base class's output bit for bit.

    K grows linearly from 0 to `max_shift` in the first `warmup_updates` updates. K depends only on
    the number of updates, so it is the same in resumed runs and all processes.
    """

    weights: Tensor
    """[rows, dim], the sinusoids. Row `padding_idx` + i is for position i = 1, 2, ..."""

    def __init__(
        self,
        embedding_dim: int,
        padding_idx: int,
        max_shift: int,
        init_size: int,
        eval_offset: int = 0,
        warmup_updates: int = 0,
    ) -> None:
        super().__init__(embedding_dim, padding_idx, init_size + max(max_shift, eval_offset))
        self.max_shift = max_shift
        self.eval_offset = eval_offset
        self.warmup_updates = warmup_updates
        self.num_updates = 0
        self.last_shift = LastShift()
        self.leader: LastShift | None = None
        # fairseq 0.12.2 does not register the table as a buffer, so .to(device) would not move it.
        table = self.weights
        del self.weights
        self.register_buffer("weights", table, persistent=False)

    @classmethod
    def from_stock(
        cls,
        stock: SinusoidalPositionalEmbedding,
        max_shift: int,
        eval_offset: int = 0,
        warmup_updates: int = 0,
    ) -> ShiftedSinusoidalPositions:
        """Build shifted positions with the dimension and table size of fairseq's module `stock`."""
        sizes = stock.embedding_dim, stock.padding_idx, max_shift, stock.weights.size(0)
        return cls(*sizes, eval_offset, warmup_updates)

    def follow(self, encoder: ShiftedSinusoidalPositions) -> None:
        """In training, reuse the shifts of the encoder's last batch instead of drawing new shifts.

        Call the encoder directly before the decoder, with the same batch.
        """
        self.leader = encoder.last_shift

    def set_num_updates(self, num_updates: int) -> None:
        """Set the number of updates for the warm-up. fairseq's trainer calls this method."""
        self.num_updates = num_updates

    @property
    def current_max_shift(self) -> int:
        """Maximum shift K at the current update."""
        if self.num_updates >= self.warmup_updates:
            return self.max_shift
        return self.max_shift * self.num_updates // self.warmup_updates

    def forward(
        self,
        input: Tensor,
        incremental_state: Any | None = None,
        timestep: Tensor | None = None,
        positions: Any | None = None,
    ) -> Tensor:
        """Return position embeddings [batch, time, dim] for ids `input` [batch, time].

        Embeddings are 0 at padding. With `incremental_state`, only the last position is embedded,
        and time is 1. In incremental decoding in training mode, positions are not shifted.
        """
        shift = None
        if not (self.training and incremental_state is not None):
            shift = self.last_shift.value = self._shift(input)
        if shift is None:
            stock: Tensor = super().forward(input, incremental_state, timestep, positions)
            return stock
        time = input.size(1)
        table = self._table_of(time + max(self.max_shift, self.eval_offset))
        if incremental_state is not None:  # `input` contains all tokens so far
            return table[self.padding_idx + time + shift]
        index = make_positions(input, self.padding_idx) + shift * input.ne(self.padding_idx)
        return table[index]

    def _shift(self, input: Tensor) -> Tensor | None:
        """Return the shifts [batch, 1] for a batch, or None if positions are not shifted."""
        if self.training and self.leader is not None:
            return self.leader.value
        largest = self.current_max_shift if self.training else self.eval_offset
        if largest == 0:
            return None
        smallest = 0 if self.training else largest
        return torch.randint(smallest, largest + 1, (input.size(0), 1), device=input.device)

    def _table_of(self, positions: int) -> Tensor:
        """Return the sinusoid table [rows, dim], extended to at least `positions` positions."""
        rows = self.padding_idx + 1 + positions
        if rows > self.weights.size(0):
            table = self.get_embedding(rows, self.embedding_dim, self.padding_idx)
            self.weights = table.to(self.weights)
        return self.weights
