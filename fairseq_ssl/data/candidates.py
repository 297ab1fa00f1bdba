"""What a search has found for some sentences, as batches to score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.utils import convert_padding_direction
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_ssl.modules.reconstruction import Passage


def collated(found: Sequence[Sequence[dict[str, Any]]], padding: int, beam: int) -> dict[str, Any]:
    """Put the candidates of all sentences under one another, the longest first.

    Returns:
        tokens [rows, time], each row ended and padded on the right; the sentence of each row
        [rows]; its slot, beam x sentence + rank [rows]; the number of sentences, and the beam
    """
    rows = [
        (one["tokens"], sentence, sentence * beam + rank)
        for sentence, hypotheses in enumerate(found)
        for rank, one in enumerate(hypotheses[:beam])
    ]
    rows.sort(key=lambda row: -len(row[0]))
    tokens = pad_sequence([row[0] for row in rows], batch_first=True, padding_value=padding)
    return {
        "tokens": tokens,
        "sentences": tokens.new_tensor([row[1] for row in rows]),
        "slots": tokens.new_tensor([row[2] for row in rows]),
        "count": len(found),
        "beam": beam,
    }


def round_trip(
    text: dict[str, Any],
    candidates: dict[str, Any],
    directions: tuple[str, str],
    padding: int,
    left_pad_source: bool,
) -> tuple[Passage, Passage]:
    """Return the way from each sentence to each of its candidates, and back.

    Args:
        text: a batch of sentences as both sources and targets
        candidates: of `collated`
        directions: of the models for the way there and back
        padding: the id
        left_pad_source: whether sources are padded on the left
    """
    tokens, rows = candidates["tokens"], candidates["sentences"]
    sentence = text["net_input"]
    there = Passage(
        directions[0],
        sentence["src_tokens"],
        sentence["src_lengths"],
        _shifted(tokens, padding),
        tokens,
        rows,
        is_genuine=False,
    )
    source = tokens
    if left_pad_source:
        source = convert_padding_direction(tokens, padding, right_to_left=True)
    back = Passage(
        directions[1],
        source,
        tokens.ne(padding).sum(1),
        sentence["prev_output_tokens"][rows],
        text["target"][rows],
        is_genuine=False,
    )
    return there, back


def _shifted(tokens: Tensor, padding: int) -> Tensor:
    """Put the end of each row [rows, time] before it."""
    ends = tokens.ne(padding).sum(1, keepdim=True) - 1
    shifted = torch.cat([tokens.gather(1, ends), tokens[:, :-1]], 1)
    return shifted.masked_fill(tokens.eq(padding), padding)
