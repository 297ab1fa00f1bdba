"""Attention of decoder layers: to the source, to the target so far, and to the source as future."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional


def visible_to_targets(targets: Tensor, sources: Tensor | None) -> Tensor:
    """Return which keys each position of a target sees: figure 2's mask.

    Args:
        targets: [batch, time], those that are not padding
        sources: [batch, source time], those that are not padding; None: without a future

    Returns:
        [batch or 1, 1, time, time + source time]; the target's own keys come first
    """
    time = targets.size(1)
    places = targets.cumsum(1) - 1
    causal = torch.ones(time, time, dtype=torch.bool, device=targets.device).tril()
    itself = torch.eye(time, dtype=torch.bool, device=targets.device)
    past = causal & (targets[:, None, :] | itself)
    if sources is None:
        return past[:, None]
    later = sources.cumsum(1)[:, None, :] - 1 > places[:, :, None]
    return torch.cat([past, later & sources[:, None, :]], dim=2)[:, None]


def from_the_start(there: KeysValues, real: Tensor) -> KeysValues:
    """Return keys and values with each sentence's first real position in place 0.

    Args:
        there: of sentences padded on either side
        real: [batch, time], the positions that are not padding
    """
    first = real.int().argmax(1)
    time = real.size(1)
    places = (torch.arange(time, device=real.device) + first[:, None]).clamp(max=time - 1)
    index = places[:, None, :, None].expand_as(there.keys)
    return KeysValues(there.keys.gather(2, index), there.values.gather(2, index))


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
        """Initialize as fairseq does."""
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


@dataclass(frozen=True)
class Encoded:
    """Sentences that an encoder has read, each once, however many translations are begun."""

    states: Tensor
    """The last layer's, with the norm after it [sentences, time, dim]."""
    between: tuple[Tensor, ...]
    """Before the first layer, between layers, after the last, each [sentences, time, dim]."""
    own: tuple[KeysValues, ...]
    """Keys and values of each layer's self-attention."""
    real: Tensor
    """[sentences, time]: the positions that are not padding."""
    is_padded: bool
    """Whether there is any padding."""
    rows: Tensor | None = None
    """The sentence of each row of the target [rows]; None: a row for each."""

    def of_rows(self, order: Tensor) -> Encoded:
        """Return the same for other rows of the target; only the index is moved."""
        return replace(self, rows=order if self.rows is None else self.rows[order])

    def rows_of_a_sentence(self) -> int:
        """Return how many rows each sentence has, if all have as many, in order; else 0."""
        sentences = len(self.real)
        if self.rows is None:
            return 1
        group, rest = divmod(len(self.rows), sentences)
        if rest:
            return 0
        expected = torch.arange(sentences, device=self.rows.device).repeat_interleave(group)
        return group if torch.equal(self.rows, expected) else 0


class SourceContext:
    """The source as the decoder's attention to it sees it, for all layers."""

    def __init__(self, encoded: Encoded, attentions: Sequence[Attention]) -> None:
        """Project each sentence once, and let its rows share the result."""
        self.group = encoded.rows_of_a_sentence()
        self.there = [attention.keys_values(encoded.states) for attention in attentions]
        self.seen = encoded.real[:, None, None, :] if encoded.is_padded else None
        if self.group == 0:
            assert encoded.rows is not None
            self._take(encoded.rows)
            self.group = 1

    def attend(self, attention: Attention, layer: int, query: Tensor) -> Tensor:
        """Return what `query` [rows, heads, time, dim / heads] finds, [rows, time, dim]."""
        rows, _, time, _ = query.shape
        return attention.attend(self._grouped(query), self.there[layer], self.seen).view(
            rows, time, -1
        )

    def shares(self, layer: int, query: Tensor) -> Tensor:
        """Return how much each query attends to each token [rows, time, source time]."""
        rows, _, time, _ = query.shape
        query = self._grouped(query)
        scores = query.float() @ self.there[layer].keys.float().transpose(-1, -2)
        scores = scores * query.size(-1) ** -0.5
        if self.seen is not None:
            scores = scores.masked_fill(~self.seen, float("-inf"))
        shares: Tensor = scores.softmax(-1).mean(1)
        return shares.view(rows, time, -1)

    def reorder(self, order: Tensor) -> None:
        """Go on with other rows: as in fairseq, as many as there were are those of before."""
        if len(order) != len(self.there[0].keys) * self.group:
            self._take(order.view(-1, self.group)[:, 0] // self.group)

    def _grouped(self, query: Tensor) -> Tensor:
        """View [rows, heads, time, width] as [sentences, heads, group * time, width]."""
        rows, heads, time, width = query.shape
        if self.group == 1:
            return query
        apart = query.view(rows // self.group, self.group, heads, time, width)
        return apart.transpose(1, 2).flatten(2, 3)

    def _take(self, sentences: Tensor) -> None:
        self.there = [there.of_rows(sentences) for there in self.there]
        self.seen = None if self.seen is None else self.seen[sentences]


class TargetContext(Protocol):
    """What is written, and its future, as the decoder's self-attention sees them."""

    seen: Tensor | None
    """[rows or 1, 1, queries, keys]: where each query may look; None: everywhere."""

    def join(self, layer: int, own: KeysValues) -> KeysValues:
        """Return all that a layer attends to, given the queries' own keys and values."""


class WholeTarget:
    """A target that is known, as in training: its keys, and after them those of the source."""

    def __init__(self, real: Tensor, encoded: Encoded, copied: Sequence[KeysValues] | None) -> None:
        """Take the target's tokens that are not padding [rows, time], and the future by layer."""
        source = None if copied is None else encoded.real
        if copied is not None and encoded.rows is not None:
            source = encoded.real[encoded.rows]
            copied = [future.of_rows(encoded.rows) for future in copied]
        self.copied = copied
        self.seen: Tensor | None = visible_to_targets(real, source)

    def join(self, layer: int, own: KeysValues) -> KeysValues:
        """Return the target's own, then the source's."""
        return own if self.copied is None else own.before(self.copied[layer])


class IncrementalTarget:
    """A target that is written token by token.

    Place t of a layer's keys holds the source's position t until the target's own takes it:
    what is left of the source then lies after t, and all places can be attended to.
    """

    def __init__(self, encoded: Encoded, copied: Sequence[KeysValues] | None) -> None:
        """Begin with the future by layer; None: without."""
        self.step = -1
        self.seen: Tensor | None = None
        self.places: list[KeysValues] = []
        self.lengths: Tensor | None = None
        if copied is None:
            return
        lengths = encoded.real.sum(1)
        rows = encoded.rows
        if rows is None:
            rows = torch.arange(len(lengths), device=lengths.device)
        if encoded.is_padded:
            copied = [from_the_start(future, encoded.real) for future in copied]
            self.lengths = lengths[rows]
        self.places = [future.of_rows(rows) for future in copied]

    def advance(self) -> None:
        """Go to the next token."""
        self.step += 1
        if self.lengths is not None:
            end = max(self.step + 1, int(self.places[0].keys.size(2)))
            place = torch.arange(end, device=self.lengths.device)
            seen = (place < self.lengths[:, None]) | (place <= self.step)
            self.seen = seen[:, None, None, :]

    def join(self, layer: int, own: KeysValues) -> KeysValues:
        """Put the token's own in its place, and return all places up to the last in use."""
        if layer == len(self.places):  # the first token, without a future
            self.places.append(own)
        elif self.step == self.places[layer].keys.size(2):
            self.places[layer] = self.places[layer].before(own)
        else:
            there = self.places[layer]
            there.keys[:, :, self.step] = own.keys[:, :, 0]
            there.values[:, :, self.step] = own.values[:, :, 0]
        return self.places[layer]

    def reorder(self, order: Tensor) -> None:
        """Go on with these rows."""
        self.places = [places.of_rows(order) for places in self.places]
        self.lengths = None if self.lengths is None else self.lengths[order]
