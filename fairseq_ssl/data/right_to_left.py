"""Targets from their last word to their first (Liu et al., 2016; thesis, 4.4.5).

A model that learns from them writes a sentence from its end, and judges one by what comes after
each word instead of by what came before.
"""

from __future__ import annotations

from typing import Any

import torch
from fairseq.data import BaseWrapperDataset, LanguagePairDataset
from torch import Tensor

from fairseq_ssl.data.pair_sides import replace_side


class ReversedSentences(BaseWrapperDataset):
    """Sentences of ids in reverse; the symbol of their end stays at the end."""

    def __init__(self, sentences: Any, eos: int) -> None:
        super().__init__(sentences)
        self.eos = eos

    def __getitem__(self, index: int) -> Tensor:
        ids: Tensor = self.dataset[index]
        return reversed_sentence(ids, self.eos)


def reverse_targets(pairs: LanguagePairDataset, eos: int) -> None:
    """Turn the targets of `pairs` around where there are any; the sources stay."""
    if pairs.tgt is not None:
        replace_side(pairs, "tgt", ReversedSentences(pairs.tgt, eos), pairs.tgt_sizes)


def reversed_sentence(ids: Tensor, eos: int) -> Tensor:
    """Return a sentence [time] from its last word to its first, its end where it was."""
    ends = int(len(ids) > 0 and ids[-1] == eos)
    words = len(ids) - ends
    return torch.cat([ids[:words].flip(0), ids[words:]])


def reversed_rows(rows: Tensor, pad: int, eos: int) -> Tensor:
    """Return sentences [batch, time] in reverse, padding and ends where they were."""
    words = ((rows != pad) & (rows != eos)).long()
    places = torch.arange(rows.size(1), device=rows.device).expand_as(rows)
    first = words.argmax(1, keepdim=True)
    last = first + words.sum(1, keepdim=True) - 1
    return rows.gather(1, torch.where(words.bool(), first + last - places, places))
