"""``fairseq-ssl rerank tune`` and ``report``: tune and analyze weights on a development set."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError

if TYPE_CHECKING:
    from fairseq_ssl.rerank import WeightSearch
    from fairseq_ssl.rerank.tuning import FeatureAnalysis

MAX_RESTARTS = 100_000
FIGURES = (".pdf", ".png", ".svg")


def add_nbest(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument of the n-best list, ``nbest_list``."""
    parser.add_argument(
        "nbest_list",
        type=Path,
        metavar="LIST",
        help="n-best list, output of rerank merge, with all scores of all candidates; .gz by "
        "suffix; - for stdin",
    )


def weights_of_file(path: Path) -> dict[str, float]:
    """Return the weights by score name in an output file of ``tune`` (``-``: stdin)."""
    from fairseq_ssl.rerank.weights import parse_weights

    return parse_weights("\n".join(options.input_lines(path)), str(path))


def add_tune(steps: Steps) -> None:
    """Add the subcommand ``tune`` and its arguments."""
    tune = steps.add(
        "tune",
        "tune weights between 0 and 1 on a development set (thesis, eq. 5.2)",
        _tune,
    )
    _add_search(tune)
    tune.add_argument(
        "--folds",
        type=int,
        default=5,
        metavar="K",
        help="number of folds of cross-validation, which shows the gain on unseen sentences, 2 or "
        "more, or 0 for none (default: 5)",
    )
    options.add_output_or_stdout(tune, "weights as JSON")


def add_report(steps: Steps) -> None:
    """Add the subcommand ``report`` and its arguments."""
    report = steps.add(
        "report",
        "report scores of the first, random and oracle candidates (exact per sentence, a lower "
        "bound per corpus), and scores with and without each feature",
        _report,
    )
    _add_search(report)
    report.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="output of rerank tune (default: tune the weights)",
    )
    report.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="figure of the features; .pdf, .png or .svg by suffix",
    )
    options.add_format(report)


def _add_search(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that ``tune`` and ``report`` share: list, references, metric and search."""
    add_nbest(parser)
    options.add_references(parser)
    parser.add_argument(
        "--metric",
        choices=("bleu", "chrf", "chrf++"),
        default="bleu",
        help="corpus score to maximize, as computed by sacreBLEU (default: bleu)",
    )
    parser.add_argument(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="tokenizer of sacreBLEU, such as ja-mecab, zh or none, for bleu (default: 13a)",
    )
    options.add_rewriting(parser, "none")
    parser.add_argument(
        "--features",
        metavar="NAME,NAME,...",
        help="scores to weight (default: all scores that every candidate has)",
    )
    _add_method(parser)
    options.add_jobs(parser)


def _add_method(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=("grid", "mert", "both"),
        default="mert",
        help="grid: all points of a grid, as in the thesis; mert: exact line search (Och, 2003), "
        "which takes seconds for any number of features; both: mert with the best point of the "
        "grid as an additional start (default: mert)",
    )
    parser.add_argument(
        "--step",
        type=float,
        metavar="S",
        help="step of the grid, 1 / N, such as 0.05, 0.001 to 1; J features have (1/S + 1)^J "
        "points, 1.8 million for 6 features (default: 0.1)",
    )
    what = "random starts of the line search, in addition to equal weights and each feature alone"
    options.add_integer(parser, "--restarts", what, 20, 0, MAX_RESTARTS)
    options.add_seed(parser, "random seed of starts and folds")


def _search(args: argparse.Namespace) -> WeightSearch:
    from fairseq_ssl.rerank import WeightSearch

    executor = options.local_executor(args)
    if args.step is not None and args.method == "mert":
        raise UsageError("--step needs --method grid or both.")
    step = 0.1 if args.step is None else args.step
    return WeightSearch(args.method, step, args.restarts, args.seed, executor)


def _data(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments that `tune` and `analyze` share."""
    from fairseq_ssl.rerank import NBest
    from fairseq_ssl.text.tokenization import moses_detokenizer

    return {
        "nbest": NBest.parse(options.input_lines(args.nbest_list), str(args.nbest_list)),
        "references": args.reference,
        "metric": args.metric,
        "tokenize": args.tokenize,
        "features": None if args.features is None else args.features.split(","),
        "rewrite": moses_detokenizer(args.subwords, args.moses),
        "progress": progress,
    }


@options.one_writer
def _tune(args: argparse.Namespace) -> None:
    from fairseq_ssl.io.outputs import atomic_lines
    from fairseq_ssl.rerank import tune

    options.check_output(args.output, args.nbest_list, *args.reference)
    tuned = tune(**_data(args), search=_search(args), folds=args.folds)
    text = json.dumps(tuned.content(), indent=2, ensure_ascii=False)
    if args.output is None:
        print(text)
    else:
        with atomic_lines(args.output) as file:
            file.write(f"{text}\n")
    scores = tuned.content()["scores"].items()
    print_lines(*(f"{name}: {score:.2f}" for name, score in scores), tuned)


def _report(args: argparse.Namespace) -> None:
    from fairseq_ssl.rerank import analyze

    options.check_output(args.figure, args.nbest_list, args.weights, *args.reference)
    search = _search(args)
    if args.figure and args.figure.suffix not in FIGURES:
        raise UsageError(f"--figure is {args.figure}. Expected a suffix of .pdf, .png or .svg.")
    weights = weights_of_file(args.weights) if args.weights else None
    analysis = analyze(**_data(args), search=search, weights=weights)
    if args.figure:
        from fairseq_ssl.analysis.figures import draw_features

        draw_features(analysis, args.metric, args.figure)
    if args.format == "json":
        print(json.dumps(analysis.content(), indent=2, ensure_ascii=False))
    else:
        _print_analysis(analysis)


def _print_analysis(analysis: FeatureAnalysis) -> None:
    for name, score in analysis.scores.items():
        print(f"{name}\t{score:.2f}")
    print("\nfeature\tweight\talone\twithout\tlost")
    full = analysis.scores["these weights"]
    for name, one in analysis.features.items():
        numbers = [one.alone, one.without, None if one.without is None else full - one.without]
        cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
        print("\t".join([name, f"{analysis.weights[name]:.6g}", *cells]))
    print(analysis)
