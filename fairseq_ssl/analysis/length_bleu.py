"""BLEU by source length, and the gain over the first model (Kiyono, 2022, figure 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.analysis import figures
from fairseq_ssl.analysis.configs import LengthBleuConfig
from fairseq_ssl.analysis.results import (
    AnalysisResult,
    Checkpoints,
    Table,
    bucket_names,
    checkpoint_digest,
    checkpoint_paths,
    mean_and_sd,
)
from fairseq_ssl.analysis.trained_models import (
    TrainedModels,
    line_detokenizer,
    reference_lines,
    translate,
)
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.metrics.bleu import Bleu, BleuSums
from fairseq_ssl.signature import Signature

Score = dict[str, float]
"""Mean (key `mean`) and standard deviation (key `sd`) of BLEU over checkpoints."""


class LengthBleu(AnalysisResult):
    """BLEU of each model in each source length bucket."""

    def tables(self) -> Iterator[Table]:
        """Yield a table with a row for all sentences and a row for each bucket."""
        results, models = self.results, self.results["models"]
        rows = [["all", "", *(_cell(model["bleu"]) for model in models.values())]]
        for i, (bucket, pairs) in enumerate(
            zip(results["buckets"], results["training_pairs"], strict=True)
        ):
            scores = [_cell(model["by_length"][i]) for model in models.values()]
            rows.append([bucket, str(pairs), *scores])
        yield ["source tokens", "training pairs", *models], rows

    def draw(self, path: str | Path) -> None:
        """Draw the gains over the baseline. Buckets without training data are shaded gray."""
        results = self.results
        gains = {name: g for name, g in results["gains"].items() if name != results["baseline"]}
        with figures.figure(path, width=7) as (ax,):
            figures.grouped_bars(ax, results["buckets"], gains)
            for i, pairs in enumerate(results["training_pairs"]):
                if pairs == 0:
                    ax.axvspan(i - 0.5, i + 0.5, color=figures.SHADE, zorder=0)
            ax.axhline(0, color="black", linewidth=0.8)
            ax.set_xlabel("source tokens (gray: not in the training data)")
            ax.set_ylabel(f"BLEU gain over {results['baseline']}")


def score_by_length(
    checkpoints: Checkpoints,
    data: str | Path,
    config: LengthBleuConfig | None = None,
    *,
    device: str = "cpu",
    progress: ProgressFactory = silent_progress,
) -> LengthBleu:
    """Translate with each checkpoint and compute BLEU for each source length bucket.

    Args:
        checkpoints: checkpoint paths by model name. The first model is the baseline.
        data: data folder created by fairseq-preprocess.
        config: analysis options (default: `LengthBleuConfig()`).
        device: ``cpu`` or ``cuda``.
        progress: creates the progress report, which receives the number of translated sentences.
    """
    config = config or LengthBleuConfig()
    checkpoints = checkpoint_paths(checkpoints, 2)
    join, ends = line_detokenizer(config), config.length_bounds
    separator, tokenize = config.separator, config.tokenize

    def plain(line: str) -> str:
        return join(" ".join(token for token in line.split() if token != separator))

    def score(path: Path) -> dict[str, Any]:
        trained = TrainedModels.load(path, data, device)
        datasets = [trained.pairs(subset) for subset in config.subsets]
        report = progress(str(path), "sentences", sum(map(len, datasets)))
        outputs = [translate(trained, dataset, config, report) for dataset in datasets]
        references = [reference_lines(trained, dataset) for dataset in datasets]
        sides = (outputs, references)
        pairs = [[plain(line) for lines in side for line in lines] for side in sides]
        indices = np.concatenate([_buckets(dataset, ends) for dataset in datasets])
        return {"checkpoint": str(path), **_bleu(pairs, indices, len(ends) + 1, tokenize)}

    baseline = next(iter(checkpoints))
    trained = TrainedModels.load(checkpoints[baseline][0], data, device)
    training_indices = _buckets(trained.split("train"), ends)
    runs = {name: list(map(score, paths)) for name, paths in checkpoints.items()}
    models = {name: _means(of_model) for name, of_model in runs.items()}
    results = {
        "buckets": bucket_names(ends),
        "training_pairs": [int((training_indices == n).sum()) for n in range(len(ends) + 1)],
        "baseline": baseline,
        "models": models,
        "gains": _gains(models, baseline),
    }
    parameters = {
        "subset": config.subset,
        **config.parameters(),
        "ends": list(ends),
        "sacrebleu": runs[baseline][0]["sacrebleu"],
        "checkpoint_digest": checkpoint_digest(checkpoints),
    }
    return LengthBleu(Signature("length-bleu", parameters), results)


def _buckets(dataset: Any, ends: Sequence[int]) -> NDArray[np.int64]:
    """Return the bucket index of each source in a dataset, or -1 for an empty source."""
    lengths: NDArray[np.int64] = dataset.src_sizes - 1
    return np.digitize(lengths, [0, *ends], right=True) - 1


def _bleu(
    pairs: list[list[str]], indices: NDArray[np.int64], number: int, tokenize: str
) -> dict[str, Any]:
    """Return the BLEU of all lines and of each bucket (None if empty), and the signature.

    Args:
        pairs: output lines and reference lines
        indices: bucket index of each line
        number: number of buckets
        tokenize: sacreBLEU tokenizer
    """
    outputs, references = pairs
    metric = Bleu([references], tokenize)
    rows = metric.statistics(outputs)
    parts = [rows, *(rows[indices == bucket] for bucket in range(number))]
    scores = [round(metric.values(part)[metric.name], 2) if len(part) else None for part in parts]
    signature = BleuSums(tokenize).signature()
    return {"bleu": scores[0], "by_length": scores[1:], "sacrebleu": signature}


def _means(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the runs of a model, and the mean and standard deviation of their BLEU scores."""
    columns = zip(*(run["by_length"] for run in runs), strict=True)
    means = [None if scores[0] is None else mean_and_sd(scores) for scores in columns]
    return {"bleu": mean_and_sd(run["bleu"] for run in runs), "by_length": means, "runs": runs}


def _gains(models: dict[str, Any], baseline: str) -> dict[str, list[float | None]]:
    """Return each model's gain over the baseline in each bucket, or None for an empty bucket."""
    return {
        name: [
            None if ours is None or theirs is None else round(ours["mean"] - theirs["mean"], 2)
            for ours, theirs in zip(model["by_length"], models[baseline]["by_length"], strict=True)
        ]
        for name, model in models.items()
    }


def _cell(score: Score | None) -> str:
    return "n/a" if score is None else f"{score['mean']:.2f} ± {score['sd']:.2f}"
