"""The edit-factorized encoder and its scores of edits (PIE, section 2.3.2 and equation 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.attention import KeysValues

INITIAL_DEVIATION = 0.02


@dataclass(frozen=True)
class EncoderSizes:
    """What decides the shape of an encoder and how it computes."""

    vocabulary: int
    layers: int
    dim: int
    inner_dim: int
    heads: int
    positions: int
    dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-12


class EditStates(NamedTuple):
    """The last layer's states, each [batch, time, dim]."""

    tokens: Tensor
    """h of the paper."""
    replacing: Tensor | None
    """r: what could stand in each token's place; none in an unfactorized encoder."""
    following: Tensor | None
    """a: what could stand after each token."""


class EditLayer(nn.Module):
    """A layer of BERT, norms after each part, for tokens and for units that no one attends to."""

    def __init__(self, sizes: EncoderSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.attention_dropout = sizes.attention_dropout
        self.in_proj = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.out_proj = nn.Linear(sizes.dim, sizes.dim)
        self.attention_norm = nn.LayerNorm(sizes.dim, sizes.epsilon)
        self.fc1 = nn.Linear(sizes.dim, sizes.inner_dim)
        self.fc2 = nn.Linear(sizes.inner_dim, sizes.dim)
        self.final_norm = nn.LayerNorm(sizes.dim, sizes.epsilon)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self, states: Tensor, time: int, seen: Tensor | None, seen_by_units: Tensor | None
    ) -> Tensor:
        """Return the next layer's states.

        Args:
            states: tokens, then units [batch, time + units, dim]
            time: how many of them are tokens
            seen: [batch, 1, 1, time], the tokens that are not padding; None where all are
            seen_by_units: [batch or 1, 1, units, time + 1], which tokens each unit attends to,
                and that it does to itself
        """
        attended = self._attended(states, time, seen, seen_by_units)
        states = self.attention_norm(states + self.dropout(self.out_proj(attended)))
        inner = self.fc2(functional.gelu(self.fc1(states)))
        normed: Tensor = self.final_norm(states + self.dropout(inner))
        return normed

    def _attended(
        self, states: Tensor, time: int, seen: Tensor | None, seen_by_units: Tensor | None
    ) -> Tensor:
        batch, length, dim = states.shape
        shape = (batch, length, 3, self.heads, dim // self.heads)
        query, key, value = self.in_proj(states).view(shape).permute(2, 0, 3, 1, 4)
        there = KeysValues(key[:, :, :time], value[:, :, :time])
        dropout = self.attention_dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            query[:, :, :time], *there, seen, dropout
        )
        if length > time:
            own = KeysValues(key[:, :, time:], value[:, :, time:])
            units = attended_by_units(query[:, :, time:], own, there, seen_by_units, dropout)
            attended = torch.cat([attended, units], dim=2)
        return attended.transpose(1, 2).reshape(batch, length, dim)


def attended_by_units(
    query: Tensor, own: KeysValues, there: KeysValues, seen: Tensor | None, dropout: float
) -> Tensor:
    """Attend to tokens and to oneself: time + 1 scores a unit, and no unit's key for another.

    Args:
        query: of the units [batch, heads, units, dim / heads]
        own: the units' own keys and values, of the same shape
        there: those of the tokens
        seen: [batch or 1, 1, units, time + 1], whom each attends to, itself last; None: all
        dropout: of the probabilities
    """
    query = query * query.size(-1) ** -0.5
    to_itself = (query * own.keys).sum(-1, keepdim=True)
    scores = torch.cat([query @ there.keys.transpose(-1, -2), to_itself], dim=-1)
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    shares = functional.dropout(scores.softmax(-1), dropout)
    return shares[..., :-1] @ there.values + shares[..., -1:] * own.values


class EditEncoder(nn.Module):
    """Encodes tokens, and for each what could replace it and what could follow it.

    All 3T are computed with the same weights, in one batch of products; the units attend to
    the T tokens and to themselves, and the tokens to no unit.
    """

    def __init__(self, sizes: EncoderSizes, padding: int, factorized: bool = True) -> None:
        super().__init__()
        self.padding = padding
        self.factorized = factorized
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.dim, padding_idx=padding)
        self.positions = nn.Embedding(sizes.positions, sizes.dim)
        self.mask = nn.Parameter(torch.empty(sizes.dim))
        self.norm = nn.LayerNorm(sizes.dim, sizes.epsilon)
        self.layers = nn.ModuleList(EditLayer(sizes) for _ in range(sizes.layers))
        self.dropout = nn.Dropout(sizes.dropout)
        self.apply(initialize)
        nn.init.trunc_normal_(self.mask, std=INITIAL_DEVIATION)

    def forward(self, tokens: Tensor) -> EditStates:
        """Encode ids [batch, time], padded on either side."""
        is_padding = tokens.eq(self.padding)
        time = tokens.size(1)
        states = self.embedded(tokens, is_padding)
        seen = None if not is_padding.any() else ~is_padding[:, None, None, :]
        seen_by_units = _seen_by_units(time, seen, tokens.device) if self.factorized else None
        for layer in self.layers:
            states = layer(states, time, seen, seen_by_units)
        if not self.factorized:
            return EditStates(states, None, None)
        return EditStates(*states.chunk(3, dim=1))

    def embedded(self, tokens: Tensor, is_padding: Tensor) -> Tensor:
        """Return the first layer's states: h, then r and a [batch, time or 3 * time, dim]."""
        places = (~is_padding).cumsum(1).sub(1).clamp(min=0)
        at = self.positions(places)
        parts = [self.tokens(tokens) + at]
        if self.factorized:
            after = self.positions((places + 1).clamp(max=self.positions.num_embeddings - 1))
            parts += [self.mask + at, self.mask + (at + after) / 2]
        states: Tensor = self.dropout(self.norm(torch.cat(parts, dim=1)))
        return states


class TokenEncoder(EditEncoder):
    """Encodes tokens alone, and is asked as the encoder of a translation model is."""

    def __init__(self, sizes: EncoderSizes, padding: int) -> None:
        super().__init__(sizes, padding, factorized=False)
        self.mask.requires_grad_(False)  # it stands for units, and there are none

    @property
    def embed_tokens(self) -> nn.Embedding:
        """The embeddings of tokens."""
        return self.tokens

    def forward(  # type: ignore[override]  # what fairseq's encoders are given, and return
        self, src_tokens: Tensor, src_lengths: Tensor | None = None
    ) -> dict[str, list[Tensor]]:
        """Encode ids [batch, time], padded on either side."""
        states = super().forward(src_tokens).tokens
        mask = src_tokens.eq(self.padding)
        return {"encoder_out": [states.transpose(0, 1)], "encoder_padding_mask": [mask]}

    def max_positions(self) -> int:
        """Return how many tokens it reads."""
        return self.positions.num_embeddings


def _seen_by_units(time: int, seen: Tensor | None, device: torch.device) -> Tensor:
    """Return [batch or 1, 1, 2 * time, time + 1]: r_i sees no token i, and all see themselves."""
    others = ~torch.eye(time, dtype=torch.bool, device=device)
    tokens = torch.cat([others, torch.ones_like(others)])[None, None]
    if seen is not None:
        tokens = tokens & seen
    return functional.pad(tokens, (0, 1), value=True)


def initialize(module: nn.Module) -> None:
    """Initialize as BERT does."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=INITIAL_DEVIATION)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


class EditScores(nn.Module):
    """Scores keep, delete, M appends, M replaces and K transforms, in the order of a dictionary.

    With H the head of a masked language model, phi the embeddings and x_i the token:

        keep            theta . h + phi(x_i) . H(h)
        append of w     theta . h + phi(x_i) . H(h) + phi(w) . H(a)
        replace by w    theta . h + (phi(w) - phi(x_i)) . H(r)
        delete          theta . h
        transform       theta . h + phi(x_i) . H(h)

    phi of a q-gram is the sum over its tokens. The paper has no H; its code has, so that a
    pre-trained head comes into use.

    With `gap_inserts` (table 6, row 4) there are two decisions: what becomes of the token, and
    what is inserted in the gap after it, where inserting nothing is one more choice. The score of
    a label is the sum of the log probabilities of its two decisions. A replacement and an
    insertion at the same place are not in the dictionary and take two rounds.
    """

    grams: Tensor
    kept_grams: Tensor | None

    def __init__(
        self,
        dim: int,
        labels: int,
        grams: list[list[int]],
        padding: int,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
        factorized: bool = True,
        gap_inserts: bool = False,
    ) -> None:
        """Make the head of a dictionary.

        Args:
            dim: of the states
            labels: how many there are
            grams: ids of the tokens of each q-gram
            padding: an id that counts as nothing where a q-gram is shorter than others
            dropout: of the states from which theta scores
            epsilon: of the norm
            factorized: whether to use more than theta
            gap_inserts: whether insertions are decided apart from the edits of tokens
        """
        super().__init__()
        self.factorized = factorized
        self.padding = padding
        self.register_buffer("kept_grams", None, persistent=False)
        self.edits = nn.Linear(dim, labels)
        self.dropout = nn.Dropout(dropout)
        self.appends = slice(2, 2 + len(grams))
        self.no_insert = nn.Linear(dim, 1) if gap_inserts else None
        if factorized:
            self.transform = nn.Linear(dim, dim)
            self.transform_norm = nn.LayerNorm(dim, epsilon)
            longest = max(map(len, grams), default=1)
            rows = [gram + [padding] * (longest - len(gram)) for gram in grams]
            self.register_buffer("grams", torch.tensor(rows).view(len(grams), longest).long())
        self.apply(initialize)

    def forward(
        self,
        embeddings: Tensor,
        tokens: Tensor,
        states: Tensor,
        replacing: Tensor | None,
        following: Tensor | None,
    ) -> Tensor:
        """Return logits [n, labels].

        Args:
            embeddings: of all tokens [vocabulary, dim]
            tokens: ids of the tokens to edit [n]
            states: h [n, dim]
            replacing: r [n, dim], needed if factorized
            following: a [n, dim], likewise
        """
        scores: Tensor = self.edits(self.dropout(states))
        if not self.factorized:
            return scores if self.no_insert is None else self._decisions(scores, states)
        assert replacing is not None
        assert following is not None
        grams = self.gram_embeddings(embeddings)
        own = functional.embedding(tokens, embeddings)
        kept = (own * self._head(states)).sum(-1, keepdim=True)
        replacing = self._head(replacing)
        following = self._head(following)
        appended = following @ grams.T + (kept if self.no_insert is None else 0)
        replaced = replacing @ grams.T - (own * replacing).sum(-1, keepdim=True)
        transforms = scores.size(1) - 2 - 2 * len(self.grams)
        rest = [kept, torch.zeros_like(kept), appended, replaced, kept.expand(-1, transforms)]
        scores = scores + torch.cat(rest, dim=1)
        return scores if self.no_insert is None else self._decisions(scores, following)

    def _decisions(self, scores: Tensor, gaps: Tensor) -> Tensor:
        """Return the log probability of the two decisions that a label stands for [n, labels].

        Args:
            scores: of all labels [n, labels]
            gaps: states that decide whether anything is inserted [n, dim]
        """
        assert self.no_insert is not None
        appends, dtype = self.appends, torch.promote_types(scores.dtype, torch.float32)
        tokens = torch.cat([scores[:, : appends.start], scores[:, appends.stop :]], dim=1)
        tokens = tokens.log_softmax(-1, dtype=dtype)
        inserted = torch.cat([self.no_insert(gaps).to(scores), scores[:, appends]], dim=1)
        inserted = inserted.log_softmax(-1, dtype=dtype)
        nothing, grams = inserted[:, :1], inserted[:, 1:]
        kept = tokens[:, :1]
        before, after = tokens[:, : appends.start], tokens[:, appends.start :]
        return torch.cat([before + nothing, kept + grams, after + nothing], dim=1)

    def gram_embeddings(self, embeddings: Tensor) -> Tensor:
        """Return phi(w) of each q-gram [M, dim]."""
        if self.kept_grams is not None and not self.training:
            return self.kept_grams
        found = functional.embedding(self.grams, embeddings, self.padding)
        return found.masked_fill(self.grams.eq(self.padding).unsqueeze(-1), 0).sum(1)

    def keep_grams(self, embeddings: Tensor) -> None:
        """Compute phi of the q-grams once, for a model that is not trained any more."""
        if self.factorized:
            with torch.no_grad():
                self.kept_grams = self.gram_embeddings(embeddings)

    def _head(self, states: Tensor) -> Tensor:
        """Return H of states [n, dim]: what a masked language model compares with embeddings."""
        transformed: Tensor = self.transform_norm(functional.gelu(self.transform(states)))
        return transformed
