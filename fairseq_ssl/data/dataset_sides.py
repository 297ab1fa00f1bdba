"""The two sides of fairseq's pair datasets: replaced, or reversed from right to left."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, LanguagePairDataset
from torch import Tensor


def replace_side(pairs: LanguagePairDataset, side: str, text: Any, sizes: Any) -> None:
    """Let `text` be the sources or the targets of `pairs`.

    Args:
        pairs: whose collater pads; without buckets, which it would have to make again
        side: src or tgt
        text: as many sentences of ids
        sizes: how long each is; some of fairseq's wrappers do not know
    """
    setattr(pairs, side, text)
    setattr(pairs, f"{side}_sizes", np.asarray(sizes))
    pairs.sizes = pairs.src_sizes
    if pairs.tgt is not None:
        pairs.sizes = np.vstack((pairs.src_sizes, pairs.tgt_sizes)).T


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
