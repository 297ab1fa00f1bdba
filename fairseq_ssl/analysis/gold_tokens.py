"""How well models predict gold tokens, by their frequency and place (thesis, figure 6.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_ssl.analysis.trained_models import TrainedModels

TokenScores = list[NDArray[np.float32]]


def gold_scores(
    trained: TrainedModels, dataset: Any, max_tokens: int, done: Callable[[int], object]
) -> TokenScores:
    """Return log p(y_j | y_<j, X) for each target token, </s> left out, sentence by sentence."""
    scores: TokenScores = [np.empty(0, np.float32)] * len(dataset)
    pad = trained.task.target_dictionary.pad()
    with torch.inference_mode():
        for sample in trained.batches(dataset, max_tokens):
            logits = trained.model(**sample["net_input"])[0].float()
            target = sample["target"]
            gold = logits.gather(-1, target[..., None])[..., 0] - logits.logsumexp(-1)
            lengths = target.ne(pad).sum(-1) - 1
            for line, row, length in zip(sample["id"].tolist(), gold, lengths, strict=True):
                scores[line] = row[: int(length)].cpu().numpy()
            done(len(gold))
    return scores


def frequency_ranks(trained: TrainedModels, chunk: int = 1000) -> NDArray[np.int64]:
    """Rank the target vocabulary by its counts in training: 1 is the most frequent."""
    targets = trained.pairs("train").tgt
    counts = np.zeros(len(trained.task.target_dictionary), dtype=np.int64)
    for start in range(0, len(targets), chunk):
        stop = min(start + chunk, len(targets))
        tokens = torch.cat([targets[i] for i in range(start, stop)])
        counts += np.bincount(tokens.numpy(), minlength=len(counts))
    counts[trained.task.target_dictionary.eos()] = 0
    ranks = np.empty(len(counts), dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(1, len(counts) + 1)
    return ranks


def share_higher(
    first: TokenScores,
    second: TokenScores,
    ranks: Sequence[NDArray[np.int64]],
    rank_ends: Sequence[int],
    position_ends: Sequence[int],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count tokens that `first` scores higher than `second`, and all tokens, by rank and position.

    Both are [ranks, positions]; bin b holds what is above end b - 1 and at most end b, the
    last bin all beyond. `ranks` are those of the gold tokens. A tie is not higher.
    """
    shape = len(rank_ends) + 1, len(position_ends) + 1
    higher, total = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for ours, theirs, rank in zip(first, second, ranks, strict=True):
        positions = np.arange(1, len(rank) + 1)
        cell = (
            np.digitize(rank, rank_ends, right=True),
            np.digitize(positions, position_ends, right=True),
        )
        np.add.at(total, cell, 1)
        np.add.at(higher, cell, ours > theirs)
    return higher, total
