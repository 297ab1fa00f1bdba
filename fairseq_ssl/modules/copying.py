"""Pointer-generator (PoDA): ids of out-of-vocabulary words, copy attention, output mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class SourceWords:
    """Source sentences in which out-of-vocabulary words have ids local to the sentence.

    In the data, out-of-vocabulary words have dictionary ids of `vocabulary` or more. Their local
    ids are consecutive within a sentence and start at `vocabulary`, so that a distribution needs
    only a few extra columns.
    """

    tokens: Tensor
    """[batch, source time], the words as local ids."""
    first: Tensor
    """[batch, source time], the position at which the same word first occurs in the sentence."""
    unknown: Tensor
    """[batch, max unknown words], dictionary ids of unknown words by local id, padded with -1."""
    vocabulary: int

    @classmethod
    def from_ids(cls, ids: Tensor, vocabulary: int) -> SourceWords:
        """Build `SourceWords` from dictionary ids [batch, source time]. Local ids are kept."""
        first = first_positions(ids)
        beyond = ids >= vocabulary
        starts = beyond & (first == torch.arange(ids.size(1), device=ids.device))
        rank = (starts.cumsum(1) - 1).gather(1, first)
        tokens = torch.where(beyond, rank + vocabulary, ids)
        max_unknown = int(starts.sum(1).max()) if ids.numel() else 0
        unknown = ids.new_full((ids.size(0), max_unknown + 1), -1)
        # Words in the vocabulary are scattered to an extra column, which is then dropped.
        unknown.scatter_(1, rank.masked_fill(~beyond, max_unknown), ids)
        return cls(tokens, first, unknown[:, :max_unknown], vocabulary)

    @property
    def width(self) -> int:
        """Number of columns in a distribution: vocabulary, then out-of-vocabulary words."""
        return self.vocabulary + self.unknown.size(1)

    def to_local(self, ids: Tensor, unk: int) -> Tensor:
        """Convert dictionary ids [batch, time] to local ids.

        Out-of-vocabulary words that are not in the source become `unk`.
        """
        beyond = ids >= self.vocabulary
        if not self.unknown.size(1):
            return ids.masked_fill(beyond, unk)
        same = ids.unsqueeze(2) == self.unknown.unsqueeze(1)
        rank = same.byte().argmax(2) + self.vocabulary
        return torch.where(beyond, rank.masked_fill(~same.any(2), unk), ids)

    def from_local(self, tokens: Tensor, sentence: int) -> Tensor:
        """Convert local ids [time] of the source with the index `sentence` to dictionary ids."""
        beyond = tokens >= self.vocabulary
        rank = (tokens - self.vocabulary).clamp(min=0)
        if not bool(beyond.any()):
            return tokens
        return torch.where(beyond, self.unknown[sentence][rank], tokens)

    def select_rows(self, rows: Tensor) -> SourceWords:
        """Return the sentences with the indices `rows` [new batch]. The width is unchanged."""
        return replace(
            self,
            tokens=self.tokens.index_select(0, rows),
            first=self.first.index_select(0, rows),
            unknown=self.unknown.index_select(0, rows),
        )


def first_positions(ids: Tensor) -> Tensor:
    """Return the position of each id's first occurrence in its row, for `ids` [batch, time]."""
    ordered, order = ids.sort(dim=1, stable=True)
    index = torch.arange(ids.size(1), device=ids.device).expand_as(ids)
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    # The sort is stable, so the first position of an id is at the start of its run.
    run = index.masked_fill(~starts, 0).cummax(1).values
    return torch.empty_like(ids).scatter_(1, order, order.gather(1, run))


class CopyAttention(nn.Module):
    """Layer for copy attention alpha and the generation probability p_gen (PoDA, equation 3).

    There is no dropout, because alpha must be a distribution over the source even in training.
    """

    def __init__(self, dim: int, encoder_dim: int, heads: int = 1) -> None:
        """Build the projections.

        Args:
            dim: dimension of the decoder's output.
            encoder_dim: dimension of the encoder's output.
            heads: number of heads over which alpha is averaged, a divisor of `dim`.
        """
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        # No key bias: it would add the same number to all scores of a query.
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

        Queries are projected to the encoder's space, not keys to the decoder's space, so that
        incremental decoding does not have to cache keys.

        Args:
            states: [batch, time, dim], the output of the decoder.
            encoded: [batch, source time, encoder dim], the output of the encoder.
            padding: [batch, source time], True at padding (default: no padding).

        Returns:
            log alpha [batch, time, source time], in float32 or float64, and the logit of p_gen
            [batch, time]
        """
        batch, time, dim = states.shape
        query = self.query(states).view(batch, time, self.heads, -1)
        query = query * (dim // self.heads) ** -0.5
        key = self.key.weight.view(self.heads, dim // self.heads, -1)
        projected = torch.einsum("bthd,hde->bthe", query, key.type_as(query)).flatten(1, 2)
        scores = torch.bmm(projected, encoded.transpose(1, 2))
        scores = scores.view(batch, time, self.heads, -1)
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], -math.inf)
        dtype = torch.promote_types(scores.dtype, torch.float32)
        log_alphas = torch.log_softmax(scores, dim=-1, dtype=dtype)
        attention = log_alphas.squeeze(2)
        if self.heads > 1:
            # The gradient of logsumexp is NaN where all heads are minus infinity.
            finite = log_alphas.clamp(min=IMPOSSIBLE)
            attention = finite.logsumexp(dim=2) - math.log(self.heads)
            if padding is not None:
                attention = attention.masked_fill(padding[:, None], -math.inf)
        pooled = torch.bmm(attention.exp().type_as(encoded), encoded)
        return attention, self.gate(pooled).squeeze(-1)


IMPOSSIBLE = -1e4
"""Finite substitute for log 0 that keeps sums over all words finite."""


@dataclass(frozen=True)
class Copying:
    """Copy attention and generation probability at each decoder position."""

    words: SourceWords
    attention: Tensor
    """[batch, time, source time], log alpha."""
    gate: Tensor
    """[batch, time], the logit of the generation probability p_gen."""

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return log p(w) [batch, time, width] (PoDA, equation 3), in float32 or float64.

        Args:
            logits: [batch, time, vocabulary], the logits of the vocabulary distribution p_v.
        """
        batch, time, vocabulary = logits.shape
        positions = torch.arange(batch * time, device=logits.device)
        mixed = self.log_probabilities_at(positions, logits.reshape(-1, vocabulary))
        return mixed.view(batch, time, self.words.width)

    def log_probabilities_at(self, positions: Tensor, logits: Tensor) -> Tensor:
        """Return log p(w) [n, width] at selected positions.

        Args:
            positions: [n], indices into the flattened batch [batch * time].
            logits: [n, vocabulary], the logits of p_v at these positions.
        """
        time = self.attention.size(1)
        sentences = positions.div(time, rounding_mode="floor")
        result: Tensor = _Mixture.apply(  # type: ignore[no-untyped-call]
            logits,
            self.attention.flatten(0, 1).index_select(0, positions),
            self.gate.flatten().index_select(0, positions),
            self.words.tokens.index_select(0, sentences),
            self.words.first.index_select(0, sentences),
            self.words.width,
        )
        return result


class _Parts(NamedTuple):
    """Log-probabilities of the mixture and its terms at source words, each [rows, source time]."""

    generated: Tensor
    """log(p_gen p_v(w)), or `IMPOSSIBLE` for an out-of-vocabulary word."""
    alpha: Tensor
    """log of the sum of alpha over all positions of the word."""
    copied: Tensor
    """log((1 - p_gen) a), where a is the sum of alpha over all positions of the word."""
    mixed: Tensor
    """log p(w), the logarithm of the mixture."""


class _Mixture(torch.autograd.Function):
    """The log-probability log p = log(p_gen p_v + (1 - p_gen) alpha), and its gradient.

    p differs from p_gen p_v only for words in the source. Only these words are computed separately,
    so that each pass allocates only one tensor [rows, width].
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
            ctx: the autograd context.
            logits: [rows, vocabulary], the logits of p_v.
            alpha: [rows, source time], log alpha.
            gate: [rows], the logit of p_gen.
            words: [rows, source time], local ids below `width`.
            first: [rows, source time], the first position of the same word.
            width: number of output columns, see `SourceWords.width`.
        """
        dtype = torch.promote_types(logits.dtype, torch.float32)
        vocabulary = logits.size(1)
        alpha = alpha.to(dtype).clamp(min=IMPOSSIBLE)
        gate = gate.to(dtype).unsqueeze(1)
        log_p = torch.log_softmax(logits, dim=1, dtype=dtype)
        out = log_p if width == vocabulary else log_p.new_empty(len(log_p), width)
        torch.add(log_p, functional.logsigmoid(gate), out=out[:, :vocabulary])
        out[:, vocabulary:] = IMPOSSIBLE
        known = words < vocabulary
        generated = out.gather(1, words).masked_fill_(~known, IMPOSSIBLE)
        parts = _mix(generated, alpha, gate, first)
        out.scatter_(1, words, parts.mixed)
        ctx.save_for_backward(out, alpha, gate, words, first, generated)
        ctx.vocabulary = vocabulary
        ctx.dtype = logits.dtype
        return out

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients with respect to `logits`, `alpha` and `gate`."""
        out, alpha, gate, words, first, generated = ctx.saved_tensors
        (grad,) = outer
        parts = _mix(generated, alpha, gate, first)
        p_gen = torch.sigmoid(gate)
        # Count each word once, at its first position.
        once = first == torch.arange(first.size(1), device=first.device)
        at_words = grad.gather(1, words)
        known = once & (words < ctx.vocabulary)
        share = (generated - parts.mixed).exp()
        copied = at_words * (parts.copied - parts.mixed).exp()
        # Only a part of the gradient for a source word goes to p_v.
        less = (at_words * (share - 1)).masked_fill(~known, 0)
        total = grad[:, : ctx.vocabulary].sum(1, keepdim=True) + less.sum(1, keepdim=True)
        to_alpha = copied * (alpha - parts.alpha).exp()
        to_gate = total * (1 - p_gen)
        to_gate -= copied.masked_fill(~once, 0).sum(1, keepdim=True) * p_gen

        log_gate = functional.logsigmoid(gate)
        # The gradient of log softmax, grad - total * softmax, computed in place.
        to_logits = (out - log_gate).exp_()
        to_logits.scatter_(1, words, (generated - log_gate).exp())
        torch.addcmul(grad, to_logits, -total, out=to_logits).scatter_add_(1, words, less)
        to_logits = to_logits[:, : ctx.vocabulary].to(ctx.dtype)
        return to_logits, to_alpha, to_gate.squeeze(1), None, None, None


def _mix(generated: Tensor, alpha: Tensor, gate: Tensor, first: Tensor) -> _Parts:
    """Return the terms of the mixture. See `_Parts` and `_Mixture.forward` for the arguments."""
    highest = torch.full_like(alpha, IMPOSSIBLE).scatter_reduce_(1, first, alpha, "amax")
    highest = highest.gather(1, first)
    sums = torch.zeros_like(alpha).scatter_add_(1, first, (alpha - highest).exp())
    of_word = sums.gather(1, first).log() + highest
    copied = of_word + functional.logsigmoid(-gate)
    return _Parts(generated, of_word, copied, torch.logaddexp(generated, copied))
