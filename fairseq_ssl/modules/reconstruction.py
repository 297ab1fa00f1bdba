"""Reconstruction of monolingual sentences by round-trip translation: batches and loss (ByteNet)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MARGINAL, REINFORCE, TOP1 = "marginal", "reinforce", "top1"
WEIGHTINGS = (MARGINAL, REINFORCE, TOP1)
"""Ways to weight the candidates of a sentence. See `reconstruction_loss`."""


class DirectionBatch(NamedTuple):
    """A batch to be scored by the model of one translation direction."""

    direction: str
    """The model's direction, such as ``de-en``."""
    source: Tensor
    """[sources, time], ids of the sources."""
    lengths: Tensor
    """[sources], lengths of the sources."""
    previous: Tensor
    """[rows, time], the targets, shifted right: input of the decoder."""
    target: Tensor
    """[rows, time], ids of the targets."""
    rows: Tensor | None = None
    """[rows], the source index of each target row. None: one target per source."""
    is_genuine: bool = True
    """True if the text is human-written. Other batches do not update batch norm statistics."""


def log_likelihood(scores: Tensor, target: Tensor, padding: int) -> Tensor:
    """Return log P of each target [rows].

    Args:
        scores: [rows, time, vocabulary], log-probabilities.
        target: [rows, time], ids.
        padding: id of the padding, which is ignored.
    """
    token_scores = scores.gather(2, target.unsqueeze(2)).squeeze(2)
    return token_scores.masked_fill(target.eq(padding), 0).sum(1)


def reconstruction_loss(
    forward: Tensor, backward: Tensor, weighting: str = MARGINAL, renormalize: bool = False
) -> Tensor:
    """Return the loss of each sentence x [batch], given candidate translations y_k.

    marginal: -log sum_k P(y_k | x) P(x | y_k), for different y_k. Its gradient weights each
    candidate by its share of the sum. reinforce: the backward model is trained on all candidates,
    the forward model by policy gradient with the reward log P(x | y_k), standardized over the
    candidates (He et al., 2016). top1: -log P(x | y_1) of the best candidate, which is
    back-translation.

    Args:
        forward: [batch, beam], log P(y_k | x), best first. Missing candidates are minus infinity.
        backward: [batch, beam], log P(x | y_k), in the same order.
        weighting: marginal, reinforce or top1.
        renormalize: normalize P(y_k | x) over the candidates (marginal only).
    """
    if weighting == TOP1:
        return -backward[:, 0]
    is_candidate = torch.isfinite(forward)
    if weighting == REINFORCE:
        counts = is_candidate.sum(1)
        reward = _rewards(backward.detach(), is_candidate)
        forward, backward = (scores.masked_fill(~is_candidate, 0) for scores in (forward, backward))
        return -(reward * forward + backward).sum(1) / counts
    total = torch.logsumexp(forward + backward, 1)
    return torch.logsumexp(forward, 1) - total if renormalize else -total


def _rewards(scores: Tensor, is_candidate: Tensor) -> Tensor:
    """Return scores [batch, beam] with mean 0 and variance 1 over the candidates of a sentence.

    The scores of missing candidates are 0.
    """
    scores = scores.masked_fill(~is_candidate, 0)
    counts = is_candidate.sum(1, keepdim=True)
    centered = (scores - scores.sum(1, keepdim=True) / counts).masked_fill(~is_candidate, 0)
    std = (centered.square().sum(1, keepdim=True) / counts).sqrt()
    return centered / std.clamp(min=1e-6)


def group_candidates(scores: Tensor, slots: Tensor, sentences: int, beam: int) -> Tensor:
    """Return the scores of candidates [sentences, beam], minus infinity for missing ones.

    Args:
        scores: [rows], scores of all candidates.
        slots: [rows], beam * sentence + rank of each candidate.
        sentences: number of sentences.
        beam: maximum number of candidates per sentence.
    """
    missing = scores.new_full((sentences * beam,), -math.inf)
    return missing.index_copy(0, slots, scores).view(sentences, beam)
