"""Reconstruction of monolingual sentences by round-trip translation: batches and loss (ByteNet)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


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


def reconstruction_loss(forward: Tensor, backward: Tensor) -> Tensor:
    """Return the loss of each sentence x [batch], given different candidate translations y_k.

    -log sum_k P(y_k | x) P(x | y_k). Its gradient weights each candidate by its share of the sum.

    Args:
        forward: [batch, beam], log P(y_k | x), best first. Missing candidates are minus infinity.
        backward: [batch, beam], log P(x | y_k), in the same order.
    """
    return -torch.logsumexp(forward + backward, 1)


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
