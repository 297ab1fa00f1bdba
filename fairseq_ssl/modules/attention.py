"""Attention for pseudo-bidirectional decoding: projections, masks, cached keys and values (PBD).

Decoder self-attention attends to the target's past and, as a pseudo future, to the source positions
after the current position (PBD, figure 2). `TeacherForcedTarget` and `IncrementalTarget` store
the keys and values of self-attention in training and in decoding. `SourceContext` stores the keys
and values of source attention.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

_lock = threading.Lock()
_stocks: list[Callable[..., Any]] = []
"""PyTorch's original attention function, listed once per active `float32_attention` context."""


@contextlib.contextmanager
def float32_attention() -> Iterator[None]:
    """Context manager in which scaled dot-product attention uses float32 despite autocast.

    On CPUs, attention over up to 512 keys is slower in bfloat16 than in float32. The context also
    affects fairseq's attention, because PyTorch looks up the function at each call.
    """
    with _lock:
        if not _stocks:
            _stocks.append(functional.scaled_dot_product_attention)
            functional.scaled_dot_product_attention = _in_float32(_stocks[0])
        else:
            _stocks.append(_stocks[0])
    try:
        yield
    finally:
        with _lock:  # contexts in several threads can overlap: the last exit restores the function
            stock = _stocks.pop()
            if not _stocks:
                functional.scaled_dot_product_attention = stock


def _in_float32(stock: Callable[..., Any]) -> Callable[..., Any]:
    def attend(*inputs: Any, **options: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            named = {name: _bfloat16_to_float32(value) for name, value in options.items()}
            return stock(*map(_bfloat16_to_float32, inputs), **named)

    return attend


def _bfloat16_to_float32(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype is torch.bfloat16
    return value.float() if is_half else value


class KeysValues(NamedTuple):
    """Keys and values to attend to, each [batch, heads, time, dim / heads]."""

    keys: Tensor
    values: Tensor

    def select_rows(self, rows: Tensor) -> KeysValues:
        """Return the keys and values of the batch rows with the indices `rows` [new batch]."""
        return KeysValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def concat(self, others: KeysValues) -> KeysValues:
        """Return these keys and values followed by `others` along the time axis."""
        return KeysValues(*(torch.cat(pair, dim=2) for pair in zip(self, others, strict=True)))

    def remove_left_padding(self, real: Tensor) -> KeysValues:
        """Return the keys and values with each row's first real position moved to index 0.

        Args:
            real: [batch, time], True at positions that are not padding.
        """
        first = real.int().argmax(1)
        time = real.size(1)
        positions = torch.arange(time, device=real.device) + first[:, None]
        index = positions.clamp(max=time - 1)[:, None, :, None].expand_as(self.keys)
        return KeysValues(self.keys.gather(2, index), self.values.gather(2, index))


class Attention(nn.Module):
    """Multi-head attention with separate methods for projecting queries, keys and values."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights as in fairseq's MultiheadAttention."""
        for part in self.in_proj.weight.chunk(3):
            nn.init.xavier_uniform_(part, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def project(self, states: Tensor) -> tuple[Tensor, KeysValues]:
        """Project `states` [batch, time, dim] to queries, and to keys and values."""
        query, key, value = self._split_heads(self.in_proj(states), 3)
        return query, KeysValues(key, value)

    def project_queries(self, states: Tensor) -> Tensor:
        """Project `states` [batch, time, dim] only to queries."""
        dim = self.out_proj.in_features
        projected = functional.linear(states, self.in_proj.weight[:dim], self.in_proj.bias[:dim])
        return self._split_heads(projected, 1)[0]

    def project_keys_values(self, states: Tensor) -> KeysValues:
        """Project `states` [batch, time, dim] only to keys and values."""
        dim = self.out_proj.in_features
        projected = functional.linear(states, self.in_proj.weight[dim:], self.in_proj.bias[dim:])
        return KeysValues(*self._split_heads(projected, 2))

    def translate_keys_values(self, keys_values: KeysValues, vector: Tensor) -> KeysValues:
        """Return the keys and values of states s + `vector`, given the keys and values of s.

        Only `vector` [dim] is projected, which is faster than projecting the states again.
        """
        dim = self.out_proj.in_features
        offsets = functional.linear(vector, self.in_proj.weight[dim:]).view(2, 1, self.heads, 1, -1)
        return KeysValues(keys_values.keys + offsets[0], keys_values.values + offsets[1])

    def attend(self, query: Tensor, keys_values: KeysValues, mask: Tensor | None = None) -> Tensor:
        """Return the attention output [batch, time, dim].

        Args:
            query: [batch, heads, time, dim / heads], from `project` or `project_queries`.
            keys_values: the keys and values to attend to.
            mask: [batch or 1, 1, time or 1, keys], True where a query may attend (default: all).
        """
        dropout = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(query, *keys_values, mask, dropout)
        out: Tensor = self.out_proj(attended.transpose(1, 2).flatten(2))
        return out

    def _split_heads(self, projected: Tensor, parts: int) -> Tensor:
        """View [batch, time, parts * dim] as [parts, batch, heads, time, dim / heads]."""
        batch, time, _ = projected.shape
        return projected.view(batch, time, parts, self.heads, -1).permute(2, 0, 3, 1, 4)


def attend_from_units(
    query: Tensor, own: KeysValues, tokens: KeysValues, mask: Tensor | None, dropout: float
) -> Tensor:
    """Return the attention output for edit units (PIE) [batch, heads, units, dim / heads].

    Each unit attends to all `time` tokens and to itself, so it has time + 1 scores.

    Args:
        query: [batch, heads, units, dim / heads], queries of the units.
        own: keys and values of the units, each with the shape of `query`.
        tokens: keys and values of the tokens.
        mask: [batch or 1, 1, units, time + 1], True where a unit may attend, or None for no mask.
            The last column is the unit itself.
        dropout: dropout probability of attention weights, 0 in evaluation.
    """
    query = query * query.size(-1) ** -0.5
    self_score = (query * own.keys).sum(-1, keepdim=True)
    scores = torch.cat([query @ tokens.keys.transpose(-1, -2), self_score], dim=-1)
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    weights = functional.dropout(scores.softmax(-1), dropout)
    return weights[..., :-1] @ tokens.values + weights[..., -1:] * own.values


@dataclass(frozen=True)
class EncodedSource:
    """Encoder output that stores each sentence once, regardless of its number of hypotheses."""

    tokens: Tensor
    """[sentences, time], the source ids."""
    states: Tensor
    """[sentences, time, dim], the encoder's output states."""
    layer_states: tuple[Tensor, ...]
    """The input of each layer and the output of the last layer, each [sentences, time, dim]."""
    keys_values: tuple[KeysValues, ...]
    """The keys and values of each layer's self-attention."""
    real: Tensor
    """[sentences, time], True at positions that are not padding."""
    is_padded: bool
    """True if any position is padding."""
    rows: Tensor | None = None
    """[rows], the sentence index of each target row, or None for one row per sentence."""

    def select_rows(self, order: Tensor) -> EncodedSource:
        """Return the encoder output for the target rows `order`, without copying sentences."""
        return replace(self, rows=order if self.rows is None else self.rows[order])

    def row_indices(self) -> Tensor:
        """Return the sentence index of each target row [rows]."""
        if self.rows is not None:
            return self.rows
        return torch.arange(len(self.real), device=self.real.device)

    def rows_per_sentence(self) -> int:
        """Return the number of rows per sentence, or 0 if it varies or if rows are unsorted."""
        sentences = len(self.real)
        if self.rows is None:
            return 1
        group, rest = divmod(len(self.rows), sentences)
        if rest:
            return 0
        expected = torch.arange(sentences, device=self.rows.device).repeat_interleave(group)
        return group if torch.equal(self.rows, expected) else 0


class SourceContext:
    """Keys and values of source attention for all decoder layers."""

    def __init__(self, encoded: EncodedSource, attentions: Sequence[Attention]) -> None:
        """Compute the keys and values for each decoder layer.

        Each sentence is projected once. All target rows of a sentence share the keys and values.
        """
        self.group = encoded.rows_per_sentence()
        self.keys_values = [
            attention.project_keys_values(encoded.states) for attention in attentions
        ]
        self.mask = encoded.real[:, None, None, :] if encoded.is_padded else None
        if self.group == 0:
            assert encoded.rows is not None
            self._select_sentences(encoded.rows)
            self.group = 1

    def attend(self, attention: Attention, layer: int, query: Tensor) -> Tensor:
        """Return the attention output [rows, time, dim] of a layer.

        Args:
            attention: the layer's source attention.
            layer: index of the layer.
            query: [rows, heads, time, dim / heads], from `project_queries`.
        """
        rows, _, time, _ = query.shape
        grouped = self._group_rows(query)
        return attention.attend(grouped, self.keys_values[layer], self.mask).view(rows, time, -1)

    def attention_weights(self, layer: int, query: Tensor) -> Tensor:
        """Return the attention weights [rows, time, source time], averaged over heads."""
        rows, _, time, _ = query.shape
        query = self._group_rows(query)
        scores = query.float() @ self.keys_values[layer].keys.float().transpose(-1, -2)
        scores = scores * query.size(-1) ** -0.5
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, float("-inf"))
        weights: Tensor = scores.softmax(-1).mean(1)
        return weights.view(rows, time, -1)

    def reorder(self, order: Tensor) -> None:
        """Select the target rows with the indices `order`.

        If the number of rows is unchanged, fairseq reorders rows only within each sentence, so the
        keys and values stay the same.
        """
        if len(order) != len(self.keys_values[0].keys) * self.group:
            self._select_sentences(order.view(-1, self.group)[:, 0] // self.group)

    def _group_rows(self, query: Tensor) -> Tensor:
        """Reshape [rows, heads, time, width] to [sentences, heads, group * time, width]."""
        rows, heads, time, width = query.shape
        if self.group == 1:
            return query
        split = query.view(rows // self.group, self.group, heads, time, width)
        return split.transpose(1, 2).flatten(2, 3)

    def _select_sentences(self, sentences: Tensor) -> None:
        self.keys_values = [keys_values.select_rows(sentences) for keys_values in self.keys_values]
        self.mask = None if self.mask is None else self.mask[sentences]


class TargetContext(Protocol):
    """Self-attention keys and values of the target prefix and the pseudo future, in all layers."""

    def attend(self, attention: Attention, layer: int, states: Tensor) -> Tensor:
        """Return the attention output [rows, time, dim] at the current positions.

        Args:
            attention: the layer's self-attention.
            layer: index of the layer.
            states: [rows, time, dim], the layer's input at the current positions.
        """


class TeacherForcedTarget:
    """`TargetContext` for complete targets, as in training. Target keys precede source keys."""

    def __init__(
        self,
        real: Tensor,
        encoded: EncodedSource,
        future: Sequence[KeysValues] | None,
        consumed: Tensor | None = None,
    ) -> None:
        """Build the mask, and select the pseudo future of each target row.

        Args:
            real: [rows, time], True at target positions that are not padding.
            encoded: the encoder output.
            future: the pseudo future's keys and values for each layer, or None for no future.
            consumed: see `pseudo_bidirectional_mask`.
        """
        source = None if future is None else encoded.real
        if future is not None and encoded.rows is not None:
            source = encoded.real[encoded.rows]
            future = [keys_values.select_rows(encoded.rows) for keys_values in future]
        self.future = future
        self.mask: Tensor | None = pseudo_bidirectional_mask(real, source, consumed)

    def attend(self, attention: Attention, layer: int, states: Tensor) -> Tensor:
        """Return a layer's attention output [rows, time, dim]. See `TargetContext.attend`."""
        query, own = attention.project(states)
        joined = own if self.future is None else own.concat(self.future[layer])
        return attention.attend(query, joined, self.mask)


def pseudo_bidirectional_mask(
    targets: Tensor, sources: Tensor | None, consumed: Tensor | None = None
) -> Tensor:
    """Return a mask that is True where a target position may attend (PBD, figure 2).

    Args:
        targets: [batch, time], True at target positions that are not padding.
        sources: [batch, source time], True at source positions that are not padding, or None for
            no pseudo future.
        consumed: [batch, time], the source position after which the pseudo future of each target
            position begins (default: the target position).

    Returns:
        [batch or 1, 1, time, time + source time], with target keys before source keys
    """
    time = targets.size(1)
    positions = targets.cumsum(1) - 1 if consumed is None else consumed
    causal = torch.ones(time, time, dtype=torch.bool, device=targets.device).tril()
    diagonal = torch.eye(time, dtype=torch.bool, device=targets.device)
    past = causal & (targets[:, None, :] | diagonal)
    if sources is None:
        return past[:, None]
    later = sources.cumsum(1)[:, None, :] - 1 > positions[:, :, None]
    return torch.cat([past, later & sources[:, None, :]], dim=2)[:, None]


class IncrementalTarget:
    """`TargetContext` for targets that are generated token by token.

    Index t of a layer's cache stores source position t until target position t overwrites it.
    Therefore, the cache at each step is exactly the target's past plus the pseudo future.
    """

    def __init__(self, encoded: EncodedSource, future: Sequence[KeysValues] | None) -> None:
        """Fill the cache with each layer's pseudo future, or leave it empty if there is none."""
        self.step = -1
        self.mask: Tensor | None = None
        self.cache: list[KeysValues] = []
        self.lengths: Tensor | None = None
        if future is None:
            return
        lengths = encoded.real.sum(1)
        rows = encoded.row_indices()
        if encoded.is_padded:
            future = [keys_values.remove_left_padding(encoded.real) for keys_values in future]
            self.lengths = lengths[rows]
        self.cache = [keys_values.select_rows(rows) for keys_values in future]

    def advance(self, tokens: Tensor) -> None:
        """Advance by one position, and update the mask. The ids `tokens` are not needed."""
        self.step += 1
        if self.lengths is not None:
            end = max(self.step + 1, int(self.cache[0].keys.size(2)))
            position = torch.arange(end, device=self.lengths.device)
            mask = (position < self.lengths[:, None]) | (position <= self.step)
            self.mask = mask[:, None, None, :]

    def attend(self, attention: Attention, layer: int, states: Tensor) -> Tensor:
        """Extend a layer's cache. Return the attention output, as in `TargetContext.attend`."""
        query, own = attention.project(states)
        return attention.attend(query, self._join(layer, own), self.mask)

    def _join(self, layer: int, own: KeysValues) -> KeysValues:
        if layer == len(self.cache):  # the first token, without a pseudo future
            self.cache.append(own)
        elif self.step == self.cache[layer].keys.size(2):
            self.cache[layer] = self.cache[layer].concat(own)
        else:
            cached = self.cache[layer]
            cached.keys[:, :, self.step] = own.keys[:, :, 0]
            cached.values[:, :, self.step] = own.values[:, :, 0]
        return self.cache[layer]

    def reorder(self, order: Tensor) -> None:
        """Select the cached target rows with the indices `order`."""
        self.cache = [cached.select_rows(order) for cached in self.cache]
        self.lengths = None if self.lengths is None else self.lengths[order]
