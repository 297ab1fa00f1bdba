"""Replacement of one side of a LanguagePairDataset, and right-to-left targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, LanguagePairDataset
from torch import Tensor


def replace_side(pairs: LanguagePairDataset, side: str, text: Any, sizes: Any) -> None:
    """Replace the sources or the targets of `pairs` by `text`.

    Args:
        pairs: a dataset without length buckets, which are not rebuilt here.
        side: `src` or `tgt`.
        text: dataset with one tensor of ids for each pair.
        sizes: length of each sentence. Some of fairseq's wrappers do not provide it.
    """
    setattr(pairs, side, text)
    setattr(pairs, f"{side}_sizes", np.asarray(sizes))
    pairs.sizes = pairs.src_sizes
    if pairs.tgt is not None:
        pairs.sizes = np.vstack((pairs.src_sizes, pairs.tgt_sizes)).T


class ReversedSentences(BaseWrapperDataset):
    """Sentences with their ids in reverse order. The end symbol stays at the end."""

    def __init__(self, sentences: Any, eos: int) -> None:
        super().__init__(sentences)
        self.eos = eos

    def __getitem__(self, index: int) -> Tensor:
        ids: Tensor = self.dataset[index]
        return reverse_sentence(ids, self.eos)


def reverse_targets(pairs: LanguagePairDataset, eos: int) -> None:
    """Reverse the target sentences of `pairs`, if it has targets."""
    if pairs.tgt is not None:
        replace_side(pairs, "tgt", ReversedSentences(pairs.tgt, eos), pairs.tgt_sizes)


def reverse_sentence(ids: Tensor, eos: int) -> Tensor:
    """Reverse a sentence [time]. An end symbol stays at the end."""
    words = len(ids) - int(len(ids) > 0 and ids[-1] == eos)
    return torch.cat([ids[:words].flip(0), ids[words:]])


def reverse_rows(rows: Tensor, pad: int, eos: int) -> Tensor:
    """Reverse each sentence of a batch [batch, time]. Padding and end symbols stay in place."""
    words = ((rows != pad) & (rows != eos)).long()
    positions = torch.arange(rows.size(1), device=rows.device).expand_as(rows)
    first = words.argmax(1, keepdim=True)
    last = first + words.sum(1, keepdim=True) - 1
    return rows.gather(1, torch.where(words.bool(), first + last - positions, positions))
