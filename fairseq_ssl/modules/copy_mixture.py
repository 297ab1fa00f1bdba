"""A distribution over the vocabulary mixed with one over the words of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.modules.source_words import SourceWords

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
