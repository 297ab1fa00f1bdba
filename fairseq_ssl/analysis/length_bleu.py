"""BLEU by source length, and the gain over the first model (thesis, figure 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairseq_ssl.analysis import figures
from fairseq_ssl.analysis.configs import LengthBleuConfig
from fairseq_ssl.analysis.results import (
    AnalysisResult,
    Checkpoints,
    Table,
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
from fairseq_ssl.metrics.bleu import Bucket, bleu, bleu_by_length, buckets
from fairseq_ssl.signature import Signature

Score = dict[str, float]
"""Mean (key `mean`) and standard deviation (key `sd`) of BLEU over checkpoints."""


class LengthBleu(AnalysisResult):
    """BLEU of each model in each bucket of source lengths."""

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
        """Draw the gains, as in figure 6.4. Buckets without training data are shaded gray."""
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
    """Translate with each checkpoint and compute BLEU for each bucket of source lengths.

    Args:
        checkpoints: checkpoints of each model. The first model is the baseline.
        data: a data folder of fairseq-preprocess.
        config: options.
        device: ``cpu`` or ``cuda``.
        progress: called with the number of sentences translated.
    """
    config = config or LengthBleuConfig()
    checkpoints = checkpoint_paths(checkpoints, 2)
    join, within = line_detokenizer(config), buckets(config.ends)
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
        lengths = [length - 1 for dataset in datasets for length in dataset.src_sizes.tolist()]
        return {"checkpoint": str(path), **_bleu(pairs, lengths, within, tokenize)}

    baseline = next(iter(checkpoints))
    trained = TrainedModels.load(checkpoints[baseline][0], data, device)
    training_pairs = _training_lengths(trained, within)
    runs = {name: list(map(score, paths)) for name, paths in checkpoints.items()}
    models = {name: _means(of_model) for name, of_model in runs.items()}
    results = {
        "buckets": list(map(str, within)),
        "training_pairs": training_pairs,
        "baseline": baseline,
        "models": models,
        "gains": _gains(models, baseline),
    }
    parameters = {
        "subset": config.subset,
        **config.parameters(),
        "ends": list(config.ends),
        "sacrebleu": runs[baseline][0]["sacrebleu"],
        "checkpoint_digest": checkpoint_digest(checkpoints),
    }
    return LengthBleu(Signature("length-bleu", parameters), results)


def _bleu(
    pairs: list[list[str]],
    lengths: list[int],
    within: Sequence[Bucket],
    tokenize: str,
) -> dict[str, Any]:
    """Return BLEU of all lines and of each bucket. `pairs` has the outputs and the references."""
    outputs, references = pairs
    overall = bleu(outputs, references, tokenize)
    by_length = bleu_by_length(outputs, references, lengths, within, tokenize)
    return {
        "bleu": round(overall.score, 2),
        "by_length": [None if score is None else round(score, 2) for score in by_length],
        "sacrebleu": overall.signature,
    }


def _means(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean and standard deviation of BLEU over the runs of a model, and the runs."""
    columns = zip(*(run["by_length"] for run in runs), strict=True)
    means = [None if scores[0] is None else mean_and_sd(scores) for scores in columns]
    return {"bleu": mean_and_sd(run["bleu"] for run in runs), "by_length": means, "runs": runs}


def _gains(models: dict[str, Any], baseline: str) -> dict[str, list[float | None]]:
    scores = models[baseline]["by_length"]
    return {name: list(map(_gain, model["by_length"], scores)) for name, model in models.items()}


def _gain(ours: Score | None, baseline: Score | None) -> float | None:
    return None if ours is None or baseline is None else round(ours["mean"] - baseline["mean"], 2)


def _training_lengths(trained: TrainedModels, within: Sequence[Bucket]) -> list[int]:
    """Return the number of training pairs in each bucket."""
    lengths = trained.split("train").src_sizes - 1
    return [sum(int(length) in bucket for length in lengths) for bucket in within]


def _cell(score: Score | None) -> str:
    return "n/a" if score is None else f"{score['mean']:.2f} ± {score['sd']:.2f}"
