"""Tuning of the confidence thresholds of an edit tagger on held-out sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.edits.coverage import agreement
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.signature import Signature

METRICS = ("f0.5", "exact")
DecodingOptions = dict[str, float]
Evaluate = Callable[[DecodingOptions], Mapping[str, float]]
"""Function that corrects sentences with decoding options and returns scores by metric."""

GRID: dict[str, tuple[float, ...]] = {
    "edit_keep_bias": tuple(round(0.05 * step, 2) for step in range(13)),
    "edit_min_confidence": tuple(round(0.1 * step, 1) for step in range(10)),
    "edit_min_sentence_confidence": tuple(round(0.1 * step, 1) for step in range(10)),
}
"""Values of each option. The first value is the option's default, which has no effect."""


@dataclass(frozen=True)
class Trial:
    """Decoding options, and the scores of the corrections with these options."""

    options: DecodingOptions
    scores: Mapping[str, float]


@dataclass(frozen=True)
class TuningResult:
    """The trial with default options, and the best trial."""

    signature: Signature
    default: Trial
    best: Trial


def trials(evaluate: Evaluate, metric: str) -> Iterator[Trial]:
    """Yield a trial with the default options, and a trial for each other value of each option.

    Options are searched one after the other, with the best values of all previous options. If
    scores are equal, the lower value is used.
    """
    best = Trial({name: values[0] for name, values in GRID.items()}, {})
    best = Trial(best.options, evaluate(best.options))
    yield best
    for name, values in GRID.items():
        for value in values[1:]:
            options = {**best.options, name: value}
            trial = Trial(options, evaluate(options))
            yield trial
            if trial.scores[metric] > best.scores[metric]:
                best = trial


def tune_edit_confidence(
    source: Path,
    target: Path,
    model: str,
    data_dir: Path,
    *,
    metric: str = "f0.5",
    iterations: int = 4,
    batch_size: int = 64,
    device: str = "cpu",
    progress: ProgressFactory = silent_progress,
) -> TuningResult:
    """Tune the confidence options of an edit tagger by coordinate search on held-out sentences.

    Args:
        source: file of held-out sentences to correct.
        target: file of the corrected sentences.
        model: a checkpoint of an edit tagger, or several separated by ``:`` for an ensemble.
        data_dir: folder of the binarized training data.
        metric: ``f0.5`` of the edits, or ``exact``, the percentage of correct sentences.
        iterations: maximum number of rounds of editing.
        batch_size: batch size in sentences.
        device: PyTorch device, such as ``cpu`` or ``cuda``.
        progress: called with the number of trials completed.
    """
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if not sources or len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}. Both files must "
            "have the same number of lines, at least one."
        )
    corrector = _load_corrector(model, data_dir, device)

    def evaluate(options: DecodingOptions) -> dict[str, float]:
        corrector.set_options(edit_iterations=iterations, **options)
        texts = (one.text for one in corrector.correct(sources, batch_size))
        return agreement(zip(sources, texts, targets, strict=True)).scores

    report = progress("edits tune", "trials", 1 + sum(len(values) - 1 for values in GRID.values()))
    tried = []
    for trial in trials(evaluate, metric):
        tried.append(trial)
        report(1)
    best = max(tried, key=lambda trial: trial.scores[metric])
    params = {
        **{"source": str(source), "model": model, "data_dir": str(data_dir), "metric": metric},
        **{"iterations": iterations, "batch_size": batch_size},
        **{name: value for name, value in best.options.items() if value},
    }
    return TuningResult(Signature("edits-tune", {**params, **best.scores}), tried[0], best)


def _load_corrector(model: str, data_dir: Path, device: str) -> Any:
    """Load an edit tagger, or an ensemble of edit taggers, and return its corrector."""
    from fairseq import utils

    from fairseq_ssl.inference.loading import load_models

    if not data_dir.exists():
        raise DataError(f"{data_dir} does not exist. Expected the folder of the training data.")
    paths = [Path(path) for path in utils.split_paths(model)]
    models, cfg, task = load_models(paths, data=str(data_dir))
    if not hasattr(task, "build_corrector"):
        raise DataError(
            f"{paths[0]} is not an edit tagger. Expected a model of the task edit_labeling."
        )
    return task.build_corrector(models, cfg).to(device)
