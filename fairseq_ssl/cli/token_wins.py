"""``fairseq-ssl token-wins``: which gold tokens does a model predict better than another?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairseq_ssl
from fairseq_ssl.cli import analysis_options as options
from fairseq_ssl.cli.console import print_table, progress
from fairseq_ssl.cli.options import one_device, one_writer
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.metrics.bleu import buckets
from fairseq_ssl.signature import Signature

if TYPE_CHECKING:
    from fairseq_ssl.analysis.gold_tokens import TokenScores

SUMMARY = "share of gold tokens scored higher than by the first checkpoint, by rank and position"
EXAMPLES = """\
  fairseq-ssl token-wins data-bin/extrapolate -o wins \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl token-wins data-bin/interpolate -o wins --positions 100,200,300,400,500 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare checkpoints and the ends of the bins."""
    options.add_checkpoints(parser, subset="valid", several=True)
    parser.add_argument(
        "--ranks",
        type=options.numbers,
        default="5000,15000,25000",
        metavar="N,N,...",
        help="last frequency rank of each row, 1 the most frequent token of the training targets; "
        "one more row holds the rest (default: %(default)s)",
    )
    parser.add_argument(
        "--positions",
        type=options.numbers,
        default="10,20,30,40,50,60,70",
        metavar="N,N,...",
        help="last decoding position of each column, from 1; one more column holds the rest "
        "(default: %(default)s)",
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Score the gold tokens with every checkpoint and compare with the first name."""
    options.check_ends("--ranks", args.ranks)
    options.check_ends("--positions", args.positions)
    options.splits(args)
    named = options.checkpoints(args)
    counts = {len(paths) for paths in named.values()}
    if len(counts) > 1:
        raise UsageError(
            "The n-th checkpoint of a name is compared with the n-th of the first; "
            "expected as many of each name."
        )
    device = one_device(args.device)
    fairseq_ssl.register()
    scores = {name: [_score(path, device, args) for path in named[name]] for name in named}
    baseline = next(iter(named))
    ranks = _gold_ranks(named[baseline][0], device, args)
    tables = {
        name: _table(scores[name], scores[baseline], ranks, args)
        for name in named
        if name != baseline
    }
    results = {
        "baseline": baseline,
        "ranks": list(map(str, buckets(args.ranks))),
        "positions": list(map(str, buckets(args.positions))),
        "models": tables,
        "checkpoints": {name: list(map(str, paths)) for name, paths in named.items()},
    }
    _draw(args, results)
    for name, table in tables.items():
        rows = [
            [label, *("n/a" if cell is None else f"{cell:.2f}" for cell in row)]
            for label, row in zip(results["ranks"], table["share"], strict=True)
        ]
        print_table([f"{name} > {baseline}", *results["positions"]], rows)
    options.publish(args, Signature("token-wins", {"subset": args.subset}), results)
    return 0


def _score(path: Path, device: str, args: argparse.Namespace) -> TokenScores:
    from fairseq_ssl.analysis.gold_tokens import gold_scores
    from fairseq_ssl.analysis.trained_models import TrainedModels

    trained = TrainedModels.load(path, args.data, device)
    datasets = [trained.pairs(split) for split in options.splits(args)]
    done = progress(str(path), "sentences", sum(map(len, datasets)))
    return [
        scores
        for dataset in datasets
        for scores in gold_scores(trained, dataset, args.max_tokens, done)
    ]


def _gold_ranks(path: Path, device: str, args: argparse.Namespace) -> list[Any]:
    """Return the frequency ranks of the gold tokens, sentence by sentence."""
    from fairseq_ssl.analysis.gold_tokens import frequency_ranks
    from fairseq_ssl.analysis.trained_models import TrainedModels

    trained = TrainedModels.load(path, args.data, device)
    ranks = frequency_ranks(trained)
    targets = [trained.pairs(split).tgt for split in options.splits(args)]
    return [ranks[tokens[:-1].numpy()] for split in targets for tokens in _lines(split)]


def _lines(split: Any) -> Iterator[Any]:
    """Yield the lines of a split, which a data set does not do itself."""
    return (split[i] for i in range(len(split)))


def _table(
    ours: list[TokenScores], baseline: list[TokenScores], ranks: list[Any], args: argparse.Namespace
) -> dict[str, Any]:
    """Sum the counts over the repetitions; a cell without tokens has no share."""
    from fairseq_ssl.analysis.gold_tokens import share_higher

    higher: Any = 0
    total: Any = 0
    for mine, other in zip(ours, baseline, strict=True):
        if any(a.shape != b.shape for a, b in zip(mine, other, strict=True)):
            raise DataError("The checkpoints cut the targets into different tokens.")
        won, all_tokens = share_higher(mine, other, ranks, args.ranks, args.positions)
        higher, total = higher + won, total + all_tokens
    share = [
        [round(float(w / t), 4) if t else None for w, t in zip(*rows, strict=True)]
        for rows in zip(higher, total, strict=True)
    ]
    everywhere = round(float(higher.sum() / total.sum()), 4)
    return {"share": share, "tokens": total.tolist(), "all": everywhere}


def _draw(args: argparse.Namespace, results: dict[str, Any]) -> None:
    """Draw a heat map for each name, green where it wins, as figure 6.5 does."""
    from fairseq_ssl.analysis import figures

    models = results["models"]
    path = options.figure_path(args)
    width = 2 + 0.55 * len(results["positions"])
    with figures.figure(path, columns=len(models), width=width, height=2.8) as axes:
        for ax, (name, table) in zip(axes, models.items(), strict=True):
            limits = (0.0, 1.0)
            figures.heat_map(ax, table["share"], results["ranks"], results["positions"], limits)
            ax.set_title(f"{name} above {results['baseline']}")
            ax.set_xlabel("decoding position")
        axes[0].set_ylabel("frequency rank")
