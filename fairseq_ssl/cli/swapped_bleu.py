"""``fairseq-ssl swapped-bleu``: does a translation hang on where its sentence stands?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli import analysis_options as options
from fairseq_ssl.cli.console import print_table, progress
from fairseq_ssl.cli.options import one_device, one_writer
from fairseq_ssl.errors import UsageError
from fairseq_ssl.signature import Signature

SUMMARY = "BLEU of the first of joined sentences, at its place and moved to the end"
EXAMPLES = """\
  fairseq-ssl swapped-bleu data-bin/interpolate -o swapped \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl swapped-bleu data-bin/interpolate -o swapped --lines 500 --beam 1 \\
      -c absolute=runs/absolute.1.pt -c absolute=runs/absolute.2.pt -c shifted=runs/shifted.1.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare checkpoints, the sample and the separator."""
    options.add_checkpoints(parser, subset="train")
    parser.add_argument(
        "--lines",
        type=int,
        default=10000,
        metavar="N",
        help="how many lines of the split, drawn at random (default: %(default)s, as the thesis)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the draw of lines (default: %(default)s)"
    )
    parser.add_argument(
        "--separator", default="<sep>", help="the token between sentences (default: %(default)s)"
    )
    options.add_decoding(parser)


@one_writer
def run(args: argparse.Namespace) -> int:
    """Translate both orders with every checkpoint and compare."""
    if args.lines < 1:
        raise UsageError(f"--lines is {args.lines}; expected 1 or more.")
    named = options.checkpoints(args, least=1)
    device = one_device(args.device)
    fairseq_ssl.register()
    models = {name: [_one(path, device, args) for path in paths] for name, paths in named.items()}
    results = {name: _summary(runs) for name, runs in models.items()}
    _draw(args, results)
    _print(results)
    parameters = {
        "subset": args.subset,
        "lines": args.lines,
        "seed": args.seed,
        "beam": args.beam,
        "sacrebleu": next(iter(models.values()))[0]["sacrebleu"],
    }
    options.publish(args, Signature("swapped-bleu", parameters), {"models": results})
    return 0


def _one(path: Path, device: str, args: argparse.Namespace) -> dict[str, Any]:
    """Score one checkpoint in both orders."""
    import numpy as np

    from fairseq_ssl.analysis.swapped import first_references, first_sentences
    from fairseq_ssl.analysis.trained_models import TrainedModels
    from fairseq_ssl.metrics.bleu import bleu
    from fairseq_ssl.text.tokenization import moses_detokenizer

    trained = TrainedModels.load(path, args.data, device)
    dataset = trained.pairs(args.subset)
    count = min(args.lines, len(dataset))
    chosen = np.sort(np.random.default_rng(args.seed).permutation(len(dataset))[:count]).tolist()
    plain = moses_detokenizer(args.subwords, args.moses)
    references = [
        plain(line) for line in first_references(trained, dataset, chosen, args.separator)
    ]
    result: dict[str, Any] = {"checkpoint": str(path), "lines": count}
    for order in ("original", "swapped"):
        found = first_sentences(
            *(trained, dataset, chosen, args.separator, options.search(args)),
            progress(f"{path}, {order}", "lines", count),
            swapped=order == "swapped",
        )
        score = bleu([plain(line) for line in found.lines], references, args.tokenize)
        result |= {order: round(score.score, 2), f"{order}_miscounted": found.miscounted}
        result["sacrebleu"] = score.signature
    result["drop"] = round(result["original"] - result["swapped"], 2)
    return result


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    means = {
        key: options.mean_and_deviation(run[key] for run in runs)
        for key in ("original", "swapped", "drop")
    }
    return {**means, "runs": runs}


def _draw(args: argparse.Namespace, results: dict[str, Any]) -> None:
    from fairseq_ssl.analysis import figures

    with figures.figure(options.figure_path(args)) as (ax,):
        figures.grouped_bars(
            ax,
            ["original", "swapped"],
            {name: [r["original"]["mean"], r["swapped"]["mean"]] for name, r in results.items()},
            {name: [r["original"]["sd"], r["swapped"]["sd"]] for name, r in results.items()},
        )
        ax.set_ylabel("BLEU of the first sentence")


def _print(results: dict[str, Any]) -> None:
    keys = ("original", "swapped", "drop")
    rows = [
        [name, *(f"{r[key]['mean']:.2f} ± {r[key]['sd']:.2f}" for key in keys)]
        for name, r in results.items()
    ]
    print_table(["", *keys], rows)
