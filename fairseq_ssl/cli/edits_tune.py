"""``fairseq-ssl edits tune``: the confidence that a trained tagger should ask for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.options import one_device
from fairseq_ssl.edits.coverage import agreement
from fairseq_ssl.errors import DataError, flag
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.signature import Signature

METRICS = ("f0.5", "exact")


def tune(source: Path, target: Path, settings: Mapping[str, Any]) -> None:
    """Correct held-out sentences with many options, and print the best as flags of fairseq's."""
    from fairseq_ssl.analysis.edit_tuning import GRID, Trial, TrialOptions, trials

    lines = list(read_lines(source)), list(read_lines(target))
    if not lines[0] or len(lines[0]) != len(lines[1]):
        raise DataError(
            f"{source} has {len(lines[0])} lines and {target} {len(lines[1])}; expected as many, "
            "and at least one."
        )
    corrector = _corrector(settings)

    def decode(options: TrialOptions) -> dict[str, float]:
        corrector.set_options(edit_iterations=settings["iterations"], **options)
        made = corrector.correct(lines[0], settings["batch_size"])
        texts = (one.text for one in made)
        return agreement(zip(lines[0], texts, lines[1], strict=True)).scores

    metric, best, first = settings["metric"], None, None
    tell, count = (
        progress("edits tune", "trials"),
        1 + sum(len(values) - 1 for values in GRID.values()),
    )
    for number, trial in enumerate(trials(decode, metric), 1):
        tell(1, number / count)
        first = first or trial
        if best is None or trial.scores[metric] > best.scores[metric]:
            best = trial
    assert isinstance(best, Trial)
    assert isinstance(first, Trial)
    flags = {flag(name): value for name, value in best.options.items() if value}
    print(" ".join(f"{option} {value}" for option, value in flags.items()))
    for name, trial in (("without", first), ("with", best)):
        shown = ", ".join(f"{key} {value:.2f}" for key, value in trial.scores.items())
        print(f"{name}: {shown}", file=sys.stderr)
    given = {key: str(value) for key, value in settings.items() if value is not None}
    signature = Signature("edits-tune", {"source": str(source), **given, **flags, **best.scores})
    print(signature, file=sys.stderr)


def _corrector(settings: Mapping[str, Any]) -> Any:
    """Load the model, or several, and move it where it is to work."""
    from fairseq import utils

    from fairseq_ssl.inference.loading import load_models

    fairseq_ssl.register()
    device = one_device(settings["device"])
    if not settings["data"].exists():
        raise DataError(f"{settings['data']} does not exist.")
    paths = [Path(path) for path in utils.split_paths(str(settings["model"]))]
    models, cfg, task = load_models(paths, data=str(settings["data"]))
    if not hasattr(task, "build_corrector"):
        raise DataError(f"{paths[0]} is no edit tagger; expected one of --task edit_labeling.")
    return task.build_corrector(models, cfg).to(device)
