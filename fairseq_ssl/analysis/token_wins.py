"""Gold tokens that a model predicts better than a baseline (Kiyono, 2022, figure 6.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.analysis import figures
from fairseq_ssl.analysis.configs import TokenWinsConfig
from fairseq_ssl.analysis.results import (
    AnalysisResult,
    Checkpoints,
    Table,
    bucket_names,
    checkpoint_digest,
    checkpoint_paths,
)
from fairseq_ssl.analysis.trained_models import TrainedModels
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.signature import Signature

TokenScores = list[NDArray[np.float32]]
"""Gold token log-probabilities, one array per sentence."""


class TokenWins(AnalysisResult):
    """Fraction of gold tokens to which a model assigns a higher probability than the first model.

    Each model except the first has a table of fractions by frequency rank and by position.
    """

    def tables(self) -> Iterator[Table]:
        """Yield a table of fractions by rank and position for each model except the first."""
        results = self.results
        for name, table in results["models"].items():
            rows = [
                [label, *("n/a" if cell is None else f"{cell:.2f}" for cell in row)]
                for label, row in zip(results["ranks"], table["share"], strict=True)
            ]
            yield [f"{name} > {results['baseline']}", *results["positions"]], rows

    def draw(self, path: str | Path) -> None:
        """Draw a heat map of the fractions for each model except the first."""
        results = self.results
        models, positions = results["models"], results["positions"]
        width = 2 + 0.55 * len(positions)
        with figures.figure(path, columns=len(models), width=width, height=2.8) as axes:
            for ax, (name, table) in zip(axes, models.items(), strict=True):
                figures.heat_map(ax, table["share"], results["ranks"], positions, (0.0, 1.0))
                ax.set_title(f"{name} > {results['baseline']}")
                ax.set_xlabel("position")
            axes[0].set_ylabel("frequency rank")


def compare_gold_tokens(
    checkpoints: Checkpoints,
    data: str | Path,
    config: TokenWinsConfig | None = None,
    *,
    device: str = "cpu",
    progress: ProgressFactory = silent_progress,
) -> TokenWins:
    """Compare the probabilities that each model and the first model assign to gold tokens.

    Args:
        checkpoints: checkpoint paths by model name, the same number for each model.
        data: data folder created by fairseq-preprocess.
        config: analysis options (default: `TokenWinsConfig()`).
        device: ``cpu`` or ``cuda``.
        progress: creates the progress report, which receives the number of scored sentences.
    """
    config = config or TokenWinsConfig()
    subsets = config.subsets
    ranks, positions = config.rank_bounds, config.position_bounds
    checkpoints = checkpoint_paths(checkpoints, 2)
    if len({len(paths) for paths in checkpoints.values()}) > 1:
        counts = ", ".join(f"{name}: {len(paths)}" for name, paths in checkpoints.items())
        raise UsageError(
            f"The models have different numbers of checkpoints ({counts}). Pass the same number "
            "for each model, because the n-th checkpoints are compared."
        )

    def scores_of(path: Path) -> TokenScores:
        trained = TrainedModels.load(path, data, device)
        datasets = [trained.pairs(subset) for subset in subsets]
        report = progress(str(path), "sentences", sum(map(len, datasets)))
        by_dataset = (
            gold_scores(trained, dataset, config.max_tokens, report) for dataset in datasets
        )
        return [scores for sentences in by_dataset for scores in sentences]

    baseline = next(iter(checkpoints))
    gold = _gold_ranks(TrainedModels.load(checkpoints[baseline][0], data, device), subsets)
    scores = {name: list(map(scores_of, paths)) for name, paths in checkpoints.items()}
    results = {
        "baseline": baseline,
        "ranks": bucket_names(ranks),
        "positions": bucket_names(positions),
        "models": {
            name: _fractions(scores[name], scores[baseline], gold, ranks, positions)
            for name in checkpoints
            if name != baseline
        },
        "checkpoints": {name: list(map(str, paths)) for name, paths in checkpoints.items()},
    }
    bounds = {"rank_bounds": list(ranks), "position_bounds": list(positions)}
    parameters = {"subset": config.subset, **bounds}
    parameters["checkpoint_digest"] = checkpoint_digest(checkpoints)
    return TokenWins(Signature("token-wins", parameters), results)


def _gold_ranks(trained: TrainedModels, subsets: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return the frequency ranks of the gold tokens without </s>, one array per sentence."""
    ranks = frequency_ranks(trained)
    targets = [trained.pairs(subset).tgt for subset in subsets]
    every = [split[i][:-1] for split in targets for i in range(len(split))]
    words = trained.task.target_dictionary
    return [ranks[_in_reading_order(trained, _known(row, words)).numpy()] for row in every]


def _known(tokens: Tensor, dictionary: Any) -> Tensor:
    """Replace the ids that copying models assign to unknown words with the id of <unk>."""
    return tokens.masked_fill(tokens >= len(dictionary), dictionary.unk())


def _in_reading_order(trained: TrainedModels, tokens: Tensor) -> Tensor:
    """Return token values in reading order, which right-to-left models reverse."""
    return tokens.flip(0) if getattr(trained.task.cfg, "right_to_left", False) else tokens


def _fractions(
    ours: list[TokenScores],
    baseline: list[TokenScores],
    gold: list[NDArray[np.int64]],
    ranks: Sequence[int],
    positions: Sequence[int],
) -> dict[str, Any]:
    """Return fractions of tokens that a model predicts better than the baseline, and counts.

    The tokens of all checkpoints are counted together. A cell without tokens is None.
    """
    higher: Any = 0
    total: Any = 0
    for mine, theirs in zip(ours, baseline, strict=True):
        if any(a.shape != b.shape for a, b in zip(mine, theirs, strict=True)):
            raise DataError(
                "The checkpoints score different target tokens. Expected models that share a "
                "target dictionary."
            )
        won, tokens = count_higher(mine, theirs, gold, ranks, positions)
        higher, total = higher + won, total + tokens
    fractions = [
        [round(float(w / t), 4) if t else None for w, t in zip(*rows, strict=True)]
        for rows in zip(higher, total, strict=True)
    ]
    everywhere = round(float(higher.sum() / total.sum()), 4) if total.any() else None
    return {"share": fractions, "tokens": total.tolist(), "all": everywhere}


def gold_scores(
    trained: TrainedModels, dataset: Any, max_tokens: int, done: Callable[[int], object]
) -> TokenScores:
    """Return the log-probability log p(y_j | y_<j, X) of each target token except </s>.

    The scores are in reading order, even for models that generate from right to left. `done` is
    called with the number of sentences in each batch.
    """
    scores: TokenScores = [np.empty(0, np.float32)] * len(dataset)
    model, pad = trained.model, trained.task.target_dictionary.pad()
    with torch.inference_mode():
        for sample in trained.batches(dataset, max_tokens):
            output = model(**sample["net_input"])
            log_p = model.get_normalized_probs(output, True, sample)
            # In copying models, output columns differ from the ids in the data.
            gold = log_p.gather(-1, model.get_targets(sample, output)[..., None])[..., 0]
            is_token = sample["target"].ne(pad)
            for line, row, real in zip(sample["id"].tolist(), gold, is_token, strict=True):
                scores[line] = _in_reading_order(trained, row[real][:-1]).cpu().numpy()
            done(len(gold))
    return scores


def frequency_ranks(trained: TrainedModels, chunk: int = 1000) -> NDArray[np.int64]:
    """Return each symbol's frequency rank in the training targets (1: most frequent), [symbols]."""
    targets = trained.pairs("train").tgt
    counts = np.zeros(len(trained.task.target_dictionary), dtype=np.int64)
    for start in range(0, len(targets), chunk):
        stop = min(start + chunk, len(targets))
        tokens = torch.cat([targets[i] for i in range(start, stop)])
        tokens = _known(tokens, trained.task.target_dictionary)
        counts += np.bincount(tokens.numpy(), minlength=len(counts))
    counts[trained.task.target_dictionary.eos()] = 0
    ranks = np.empty(len(counts), dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(1, len(counts) + 1)
    return ranks


def count_higher(
    first: TokenScores,
    second: TokenScores,
    ranks: Sequence[NDArray[np.int64]],
    rank_ends: Sequence[int],
    position_ends: Sequence[int],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the tokens that `first` scores higher than `second`, and all tokens.

    Both counts are arrays [ranks, positions]. A bin contains the values above the previous bin's
    bound, up to its own bound. The last bin contains all larger values. Ties do not count.

    Args:
        first: gold token scores of a model.
        second: gold token scores of the baseline.
        ranks: frequency ranks of the gold tokens of each sentence.
        rank_ends: upper bounds of the rank bins.
        position_ends: upper bounds of the position bins.
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
