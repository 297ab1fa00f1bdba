"""``fairseq-ssl rerank tune``: tune and analyze weights on a development set."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.rerank import NBest, TuningConfig, WeightSearch, analyze, tune
from fairseq_ssl.rerank.weights import parse_weights

FIGURES = (".pdf", ".png", ".svg")


def add_nbest(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument of the n-best list, ``nbest_list``."""
    options.add_path(
        parser,
        "nbest_list",
        "n-best list, output of rerank merge, with all scores of all candidates; .gz or .zst by "
        "suffix; - for stdin",
        "LIST",
    )


def weights_of_file(path: Path) -> dict[str, float]:
    """Return the weights by score name in an output file of ``tune`` (``-``: stdin)."""
    return parse_weights("\n".join(options.input_lines(path)), str(path))


def add_tune(steps: Steps) -> None:
    """Add the subcommand ``tune`` and its arguments."""
    tune = steps.add(
        "tune",
        "tune weights between 0 and 1 on a development set (thesis, eq. 5.2)",
        _tune,
    )
    add_nbest(tune)
    options.add_references(tune)
    add_options(tune, TuningConfig, ["metric", "tokenize", "subwords", "moses", "features"])
    add_options(tune, WeightSearch, ["method", "step"])
    options.add_jobs(tune)
    add_options(tune, TuningConfig, ["folds"])
    options.add_output_or_stdout(tune, "weights as JSON")
    options.add_path(
        tune,
        "--report",
        "table with the scores of the first, random and oracle candidates (exact per "
        "sentence, a lower bound per corpus), and the scores with and without each feature",
    )
    options.add_path(tune, "--figure", "figure of the features; .pdf, .png or .svg by suffix")


@options.one_writer
def _tune(args: argparse.Namespace) -> None:
    for output in (args.output, args.report, args.figure):
        options.check_output(output, args.nbest_list, *args.reference)
    if args.figure and args.figure.suffix not in FIGURES:
        raise UsageError(f"--figure is {args.figure}. Expected a suffix of .pdf, .png or .svg.")
    config = TuningConfig(**passed(args, TuningConfig))
    search = WeightSearch(**passed(args, WeightSearch), executor=options.local_executor(args))
    if "step" in args and search.method == "mert":
        raise UsageError("--step needs --method grid.")
    nbest = NBest.parse(options.input_lines(args.nbest_list), str(args.nbest_list))
    tuned = tune(nbest, args.reference, config, search=search, progress=progress)
    text = json.dumps(tuned.content(), indent=2, ensure_ascii=False)
    if args.output is None:
        print(text)
    else:
        with atomic_lines(args.output) as file:
            file.write(f"{text}\n")
    print_lines(*(f"{name}: {score:.2f}" for name, score in tuned.scores.items()), tuned)
    if not (args.report or args.figure):
        return
    analysis = analyze(
        *(nbest, args.reference, tuned.weights, config), search=search, progress=progress
    )
    if args.report:
        with atomic_lines(args.report) as file:
            file.writelines(f"{line}\n" for line in analysis.table())
    if args.figure:
        from fairseq_ssl.analysis.figures import draw_features

        draw_features(analysis, config.metric, args.figure)
