"""Copying from the source: attention, mixture distribution, words outside the vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class SourceWords:
    """Sources whose unknown words have numbers that a distribution can have columns for.

    Data names a word that is not among the first `vocabulary` ones by any larger id. Here the
    first such word of a sentence is `vocabulary`, the next other one `vocabulary` + 1, ...
    """

    tokens: Tensor
    """[batch, source time], the words by these numbers."""
    first: Tensor
    """[batch, source time], where in the sentence the same word stands first."""
    unknown: Tensor
    """[batch, most unknown words], the ids of the data for those numbers; -1 for none."""
    vocabulary: int

    @classmethod
    def of(cls, ids: Tensor, vocabulary: int) -> SourceWords:
        """Number the words of `ids` [batch, source time], as the data has them.

        What is numbered already stays as it is.
        """
        first = first_positions(ids)
        beyond = ids >= vocabulary
        starts = beyond & (first == torch.arange(ids.size(1), device=ids.device))
        rank = (starts.cumsum(1) - 1).gather(1, first)
        tokens = torch.where(beyond, rank + vocabulary, ids)
        most = int(starts.sum(1).max()) if ids.numel() else 0
        unknown = ids.new_full((ids.size(0), most + 1), -1)
        # what is known falls into one more column, which is then dropped
        unknown.scatter_(1, rank.masked_fill(~beyond, most), ids)
        return cls(tokens, first, unknown[:, :most], vocabulary)

    @property
    def width(self) -> int:
        """Return how many words can be written: the vocabulary and the unknown words."""
        return self.vocabulary + self.unknown.size(1)

    def numbered(self, ids: Tensor, unk: int) -> Tensor:
        """Return `ids` [batch, time] of the data by these numbers; `unk` for words not there."""
        beyond = ids >= self.vocabulary
        if not self.unknown.size(1):
            return ids.masked_fill(beyond, unk)
        same = ids.unsqueeze(2) == self.unknown.unsqueeze(1)
        rank = same.byte().argmax(2) + self.vocabulary
        return torch.where(beyond, rank.masked_fill(~same.any(2), unk), ids)

    def named(self, tokens: Tensor, sentence: int) -> Tensor:
        """Return `tokens` [time], written for one sentence, by the ids of the data."""
        beyond = tokens >= self.vocabulary
        rank = (tokens - self.vocabulary).clamp(min=0)
        if not bool(beyond.any()):
            return tokens
        return torch.where(beyond, self.unknown[sentence][rank], tokens)

    def of_rows(self, rows: Tensor) -> SourceWords:
        """Return those of the sentences that `rows` [new batch] names; the width stays."""
        return replace(
            self,
            tokens=self.tokens.index_select(0, rows),
            first=self.first.index_select(0, rows),
            unknown=self.unknown.index_select(0, rows),
        )


def first_positions(ids: Tensor) -> Tensor:
    """Return for each place of `ids` [batch, time] where in its row the same id stands first."""
    ordered, places = ids.sort(dim=1, stable=True)
    place = torch.arange(ids.size(1), device=ids.device).expand_as(ids)
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    # in order, an id's first place is where its run begins
    run = place.masked_fill(~begins, 0).cummax(1).values
    return torch.empty_like(ids).scatter_(1, places, places.gather(1, run))


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


IMPOSSIBLE = -1e4
"""Stands for log 0, so that sums over all words stay finite."""


@dataclass(frozen=True)
class Copying:
    """What a decoder has to say about copying at each of its positions."""

    words: SourceWords
    attention: Tensor
    """[batch, time, source time], log alpha."""
    gate: Tensor
    """[batch, time], what p_gen is the sigmoid of."""

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return log p(w) [batch, time, width] of equation 3, in single precision or better.

        Args:
            logits: [batch, time, vocabulary], what p_v is the softmax of
        """
        batch, time, vocabulary = logits.shape
        everywhere = torch.arange(batch * time, device=logits.device)
        return self.at(everywhere, logits.reshape(-1, vocabulary)).view(
            batch, time, self.words.width
        )

    def at(self, kept: Tensor, logits: Tensor) -> Tensor:
        """Return log p(w) [kept, width] of some positions alone.

        Args:
            kept: [kept], their numbers when positions are counted through the batch
            logits: [kept, vocabulary]
        """
        time = self.attention.size(1)
        sentences = kept.div(time, rounding_mode="floor")
        result: Tensor = _Mixture.apply(  # type: ignore[no-untyped-call]
            logits,
            self.attention.flatten(0, 1).index_select(0, kept),
            self.gate.flatten().index_select(0, kept),
            self.words.tokens.index_select(0, sentences),
            self.words.first.index_select(0, sentences),
            self.words.width,
        )
        return result


class _Parts(NamedTuple):
    """What a word of the source has from each of both distributions, by its place [rows, time]."""

    generated: Tensor
    """log(p_gen p_v(w)); `IMPOSSIBLE` for an unknown word."""
    alpha: Tensor
    """log sum alpha over all places of the word, less the gate."""
    copied: Tensor
    """log((1 - p_gen) sum alpha)."""
    mixed: Tensor
    """log p(w)."""


class _Mixture(torch.autograd.Function):
    """p = p_gen p_v + (1 - p_gen) alpha in logarithms, with one table [rows, width] made each way.

    Only the words of the source differ from p_gen p_v, so that only they are computed apart.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        alpha: Tensor,
        gate: Tensor,
        words: Tensor,
        first: Tensor,
        width: int,
    ) -> Tensor:
        """Return log p [rows, width].

        Args:
            ctx: what backward shall know
            logits: [rows, vocabulary]
            alpha: [rows, source time], in logarithms
            gate: [rows]
            words: [rows, source time], numbers below `width`
            first: [rows, source time], where the same word stands first
            width: the size of the vocabulary and unknown words
        """
        precise = torch.promote_types(logits.dtype, torch.float32)
        vocabulary = logits.size(1)
        alpha = alpha.to(precise).clamp(min=IMPOSSIBLE)
        gate = gate.to(precise).unsqueeze(1)
        out = torch.log_softmax(logits, dim=1, dtype=precise).add_(functional.logsigmoid(gate))
        known = words < vocabulary
        generated = out.gather(1, words.clamp(max=vocabulary - 1)).masked_fill(~known, IMPOSSIBLE)
        if width > vocabulary:
            out = functional.pad(out, (0, width - vocabulary), value=IMPOSSIBLE)
        parts = _mix(generated, alpha, gate, first)
        out.scatter_(1, words, parts.mixed)
        ctx.save_for_backward(out, alpha, gate, words, first, generated)
        ctx.vocabulary = vocabulary
        ctx.dtype = logits.dtype
        return out

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of logits, alpha and gate."""
        out, alpha, gate, words, first, generated = ctx.saved_tensors
        (given,) = outer
        parts = _mix(generated, alpha, gate, first)
        to_generate = torch.sigmoid(gate)
        # each word once, at its first place
        once = first == torch.arange(first.size(1), device=first.device)
        at_words = given.gather(1, words)
        known = once & (words < ctx.vocabulary)
        share = (generated - parts.mixed).exp()
        copied = at_words * (parts.copied - parts.mixed).exp()
        # of a word of the source not all goes on to p_v
        less = (at_words * (share - 1)).masked_fill(~known, 0)
        total = given[:, : ctx.vocabulary].sum(1, keepdim=True) + less.sum(1, keepdim=True)
        to_alpha = copied * (alpha - parts.alpha).exp()
        to_gate = total * (1 - to_generate)
        to_gate -= copied.masked_fill(~once, 0).sum(1, keepdim=True) * to_generate

        log_gate = functional.logsigmoid(gate)
        # the softmax first, then what is left to do to it
        to_logits = (out - log_gate).exp_()
        to_logits.scatter_(1, words, (generated - log_gate).exp())
        to_logits.mul_(-total).add_(given).scatter_add_(1, words, less)
        to_logits = to_logits[:, : ctx.vocabulary].to(ctx.dtype)
        return to_logits, to_alpha, to_gate.squeeze(1), None, None, None


def _mix(generated: Tensor, alpha: Tensor, gate: Tensor, first: Tensor) -> _Parts:
    """Add up, at each place, what its word has from both distributions."""
    highest = torch.full_like(alpha, IMPOSSIBLE).scatter_reduce_(1, first, alpha, "amax")
    highest = highest.gather(1, first)
    sums = torch.zeros_like(alpha).scatter_add_(1, first, (alpha - highest).exp())
    of_word = sums.gather(1, first).log() + highest
    copied = of_word + functional.logsigmoid(-gate)
    return _Parts(generated, of_word, copied, torch.logaddexp(generated, copied))
