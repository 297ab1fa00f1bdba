"""From one language to another and back: what is scored, and how the scores make a loss."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MARGINAL, REINFORCE, TOP1 = "marginal", "reinforce", "top1"
WEIGHTINGS = (MARGINAL, REINFORCE, TOP1)


class Passage(NamedTuple):
    """A batch that one of two models is to score."""

    direction: str
    """Of the model, as in ``de-en``."""
    source: Tensor
    """[sources, time]"""
    lengths: Tensor
    """[sources]"""
    previous: Tensor
    """[rows, time]"""
    target: Tensor
    """[rows, time]"""
    rows: Tensor | None = None
    """Which source each row of the target has [rows]; without, its own."""
    is_genuine: bool = True
    """Whether it was written by people, and no model: statistics are of such text alone."""


def log_likelihood(scores: Tensor, target: Tensor, padding: int) -> Tensor:
    """Return log P of each row [rows].

    Args:
        scores: log-probabilities [rows, time, vocabulary]
        target: what was to be written [rows, time]
        padding: its id in the target, which counts nothing
    """
    each = scores.gather(2, target.unsqueeze(2)).squeeze(2)
    return each.masked_fill(target.eq(padding), 0).sum(1)


def reconstruction_loss(
    there: Tensor, back: Tensor, weighting: str = MARGINAL, renormalize: bool = False
) -> Tensor:
    """Return what is to be minimized for each sentence x [batch].

    marginal: - log sum_k P(y_k | x) P(x | y_k), whose gradient weights each candidate by its share
    of the sum. top1: - log P(x | y_1) of the first candidate, which is back-translation. reinforce:
    both models learn from each candidate, the way there weighted by a reward, which is
    log P(x | y_k) less its mean over the candidates, divided by its deviation (He et al., 2016).

    Args:
        there: log P(y_k | x) [batch, beam], the best first; minus infinity where there is none
        back: log P(x | y_k) [batch, beam]; the same
        weighting: marginal, reinforce or top1
        renormalize: with marginal, take the candidates for all that y can be
    """
    if weighting == TOP1:
        return -back[:, 0]
    is_there = torch.isfinite(there)
    if weighting == REINFORCE:
        counts = is_there.sum(1)
        reward = _rewards(back.detach(), is_there)
        there, back = (scores.masked_fill(~is_there, 0) for scores in (there, back))
        return -(reward * there + back).sum(1) / counts
    total = torch.logsumexp(there + back, 1)
    return torch.logsumexp(there, 1) - total if renormalize else -total


def _rewards(back: Tensor, is_there: Tensor) -> Tensor:
    """Return rewards of mean 0 and variance 1 over the candidates of a sentence [batch, beam]."""
    back = back.masked_fill(~is_there, 0)
    counts = is_there.sum(1, keepdim=True)
    centered = (back - back.sum(1, keepdim=True) / counts).masked_fill(~is_there, 0)
    deviation = (centered.square().sum(1, keepdim=True) / counts).sqrt()
    return centered / deviation.clamp(min=1e-6)


def by_sentence(scores: Tensor, slots: Tensor, sentences: int, beam: int) -> Tensor:
    """Return the scores of candidates [sentences, beam], minus infinity for those missing.

    Args:
        scores: [rows]
        slots: where each stands, beam x sentence + rank [rows]
        sentences: how many
        beam: candidates of a sentence, at most
    """
    missing = scores.new_full((sentences * beam,), -math.inf)
    return missing.index_copy(0, slots, scores).view(sentences, beam)
