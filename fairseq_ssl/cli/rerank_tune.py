"""``fairseq-ssl rerank tune``: tune and analyze weights on a development set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError

if TYPE_CHECKING:
    from fairseq_ssl.rerank import WeightSearch
    from fairseq_ssl.rerank.tuning import FeatureAnalysis

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
    add_nbest(tune)
    options.add_references(tune)
    tune.add_argument(
        "--metric",
        choices=("bleu", "chrf", "chrf++"),
        default="bleu",
        help="corpus score to maximize, as computed by sacreBLEU (default: bleu)",
    )
    tune.add_argument(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="tokenizer of sacreBLEU, such as ja-mecab, zh or none, for bleu (default: 13a)",
    )
    options.add_rewriting(tune, "none")
    tune.add_argument(
        "--features",
        metavar="NAME,NAME,...",
        help="scores to weight (default: all scores that every candidate has)",
    )
    _add_method(tune)
    options.add_jobs(tune)
    tune.add_argument(
        "--folds",
        type=int,
        default=5,
        metavar="K",
        help="number of folds of cross-validation, which shows the gain on unseen sentences, 2 or "
        "more, or 0 for none (default: 5)",
    )
    options.add_output_or_stdout(tune, "weights as JSON")
    tune.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="table with the scores of the first, random and oracle candidates (exact per "
        "sentence, a lower bound per corpus), and the scores with and without each feature",
    )
    tune.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="figure of the features; .pdf, .png or .svg by suffix",
    )


def _add_method(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=("grid", "mert"),
        default="mert",
        help="grid: all points of a grid, as in the thesis; mert: exact line search (Och, 2003), "
        "which takes seconds for any number of features (default: mert)",
    )
    parser.add_argument(
        "--step",
        type=float,
        metavar="S",
        help="step of the grid, 1 / N, such as 0.05, 0.001 to 1; J features have (1/S + 1)^J "
        "points, 1.8 million for 6 features (default: 0.1)",
    )


def _search(args: argparse.Namespace) -> WeightSearch:
    from fairseq_ssl.rerank import WeightSearch

    executor = options.local_executor(args)
    if args.step is not None and args.method == "mert":
        raise UsageError("--step needs --method grid.")
    return WeightSearch(args.method, 0.1 if args.step is None else args.step, executor=executor)


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
    from fairseq_ssl.rerank import analyze, tune

    for output in (args.output, args.report, args.figure):
        options.check_output(output, args.nbest_list, *args.reference)
    if args.figure and args.figure.suffix not in FIGURES:
        raise UsageError(f"--figure is {args.figure}. Expected a suffix of .pdf, .png or .svg.")
    data, search = _data(args), _search(args)
    tuned = tune(**data, search=search, folds=args.folds)
    text = json.dumps(tuned.content(), indent=2, ensure_ascii=False)
    if args.output is None:
        print(text)
    else:
        with atomic_lines(args.output) as file:
            file.write(f"{text}\n")
    scores = tuned.content()["scores"].items()
    print_lines(*(f"{name}: {score:.2f}" for name, score in scores), tuned)
    if not (args.report or args.figure):
        return
    analysis = analyze(**data, weights=tuned.weights, search=search)
    if args.report:
        with atomic_lines(args.report) as file:
            file.writelines(f"{line}\n" for line in _report_lines(analysis))
    if args.figure:
        from fairseq_ssl.analysis.figures import draw_features

        draw_features(analysis, args.metric, args.figure)


def _report_lines(analysis: FeatureAnalysis) -> Iterator[str]:
    for name, score in analysis.scores.items():
        yield f"{name}\t{score:.2f}"
    yield from ("", "feature\tweight\talone\twithout\tlost")
    full = analysis.scores["these weights"]
    for name, one in analysis.features.items():
        numbers = [one.alone, one.without, None if one.without is None else full - one.without]
        cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
        yield "\t".join([name, f"{analysis.weights[name]:.6g}", *cells])
    yield str(analysis)
