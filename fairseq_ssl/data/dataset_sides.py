"""Sides of a LanguagePairDataset: replacement, right-to-left targets, bounds on target lengths.

ByteNet's dynamic unfolding needs a linear bound on the target length given the source length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, LanguagePairDataset
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.errors import FairseqSslError

FIT_SAMPLE = 100_000
"""Minimum number of sentence pairs in a sample to which a bound is fitted."""

LengthPairs = NDArray[np.int64]


def replace_side(pairs: LanguagePairDataset, side: str, text: Any, sizes: Any) -> None:
    """Replace the sources or the targets of `pairs` with `text`.

    Args:
        pairs: a dataset without length buckets, because these would not be rebuilt.
        side: `src` or `tgt`.
        text: dataset with one tensor of ids for each pair.
        sizes: length of each sentence, which some of fairseq's wrappers do not provide.
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
    """Reverse the targets of `pairs`, if any."""
    if pairs.tgt is not None:
        replace_side(pairs, "tgt", ReversedSentences(pairs.tgt, eos), pairs.tgt_sizes)


def reverse_sentence(ids: Tensor, eos: int) -> Tensor:
    """Reverse a sentence [time]. An end symbol stays at the end."""
    words = len(ids) - int(len(ids) > 0 and ids[-1] == eos)
    return torch.cat([ids[:words].flip(0), ids[words:]])


def reverse_rows(rows: Tensor, pad: int, eos: int) -> Tensor:
    """Reverse each sentence in a batch [batch, time]. Padding and end symbols stay in place."""
    words = ((rows != pad) & (rows != eos)).long()
    positions = torch.arange(rows.size(1), device=rows.device).expand_as(rows)
    first = words.argmax(1, keepdim=True)
    last = first + words.sum(1, keepdim=True) - 1
    return rows.gather(1, torch.where(words.bool(), first + last - positions, positions))


def parse_length_bound(words: str) -> tuple[float, float] | None:
    """Parse the slope and offset of a bound from "a,b". Return None unless both are 0 or more."""
    try:
        slope, offset = (float(word) for word in words.split(","))
    except ValueError:
        return None
    return (slope, offset) if slope >= 0 and offset >= 0 else None


def fit_length_bound(
    sources: LengthPairs, targets: LengthPairs, share: float = 0.999
) -> tuple[float, float]:
    """Return (a, b) with target length <= a * source length + b for a fraction `share` of pairs.

    Each slope a = 0, 0.05, 0.1, ... is tried with the smallest sufficient b. The result is the
    pair with the smallest mean bound.
    """
    stride = max(1, len(sources) // FIT_SAMPLE)
    sources, targets = sources[::stride], targets[::stride]
    steepest = float(np.ceil((targets / np.maximum(sources, 1)).max()))
    best = (float("inf"), 0.0, 0.0)
    for twentieth in range(int(20 * min(steepest, 100.0)) + 1):
        slope = twentieth / 20
        # Compute in hundredths, so that 1.15 times 20 is exactly 23.
        missing = np.ceil((100 * targets - 5 * twentieth * sources) / 100)
        offset = max(0.0, float(np.quantile(missing, share, method="higher")))
        best = min(best, (slope * float(sources.mean()) + offset, slope, offset))
    return best[1], best[2]


def training_lengths(task: Any) -> tuple[LengthPairs, LengthPairs] | None:
    """Return the source and target lengths of a task's training pairs, including end symbols.

    If sources are noisy, the lengths are from a sample. Return None if the task has no training
    pairs or cannot combine their files.
    """
    split = getattr(task.cfg, "train_subset", "train")
    if split not in task.datasets:
        try:
            task.load_dataset(split, combine=True)  # with train1, train2, ..., as the trainer does
        except (FileNotFoundError, FairseqSslError, ValueError):
            # Without --upsample-primary, fairseq raises ValueError for train and train1.
            return None
    pairs = task.datasets[split]
    if getattr(pairs, "tgt_sizes", None) is None:
        return None
    if hasattr(pairs, "noisy_lengths"):
        lengths: tuple[LengthPairs, LengthPairs] = pairs.noisy_lengths()
        return lengths
    return np.asarray(pairs.src_sizes, np.int64), np.asarray(pairs.tgt_sizes, np.int64)
