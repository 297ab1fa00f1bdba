"""Reconstruction of sentences with round-trip translation: batches and loss (ByteNet)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class DirectionBatch(NamedTuple):
    """A batch to score with the model for one translation direction."""

    direction: str
    """The model's direction, such as ``de-en``."""
    source: Tensor
    """[sources, time], ids of the sources."""
    lengths: Tensor
    """[sources], lengths of the sources in tokens."""
    previous: Tensor
    """[rows, time], the targets shifted right, which are the decoder input."""
    target: Tensor
    """[rows, time], ids of the targets."""
    rows: Tensor | None = None
    """[rows], the source index of each target row, or None for one target per source."""
    is_genuine: bool = True
    """True if both sides are human-written. Other batches do not update batch norm statistics."""


def log_likelihood(scores: Tensor, target: Tensor, padding: int) -> Tensor:
    """Return the log-likelihood of each target [rows].

    Args:
        scores: [rows, time, vocabulary], log-probabilities.
        target: [rows, time], ids.
        padding: padding id. Padding is ignored.
    """
    token_scores = scores.gather(2, target.unsqueeze(2)).squeeze(2)
    return token_scores.masked_fill(target.eq(padding), 0).sum(1)


def reconstruction_loss(forward: Tensor, backward: Tensor) -> Tensor:
    """Return the loss of each sentence x [batch], given distinct candidate translations y_k.

    The loss is -log sum_k P(y_k | x) P(x | y_k). In the gradient of this loss, each candidate is
    weighted by its fraction of the sum.

    Args:
        forward: [batch, beam], log P(y_k | x), best first. Missing candidates are minus infinity.
        backward: [batch, beam], log P(x | y_k), in the same order.
    """
    return -torch.logsumexp(forward + backward, 1)


def group_candidates(scores: Tensor, slots: Tensor, sentences: int, beam: int) -> Tensor:
    """Arrange candidate scores as [sentences, beam], with minus infinity for missing candidates.

    Args:
        scores: [rows], scores of all candidates.
        slots: [rows], the slot of each candidate: beam * sentence index + rank.
        sentences: number of sentences.
        beam: maximum number of candidates per sentence.
    """
    missing = scores.new_full((sentences * beam,), -math.inf)
    return missing.index_copy(0, slots, scores).view(sentences, beam)
