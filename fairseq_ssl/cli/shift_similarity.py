"""``fairseq-ssl shift-similarity``: do encoder states change when all positions are shifted?"""

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

SUMMARY = "cosine similarity of encoder states under shifted positions"
EXAMPLES = """\
  fairseq-ssl shift-similarity data-bin -o similarity \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl shift-similarity data-bin --offsets 0,50,100 -o similarity -c shifted=run.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare checkpoints and offsets."""
    options.add_checkpoints(parser, subset="valid")
    parser.add_argument(
        "--offsets",
        type=options.numbers,
        default="0,100,250,500",
        metavar="K,K,...",
        help="shifts of all positions, in tokens; k in figure 6.3 (default: %(default)s)",
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Compare the states of every checkpoint with themselves."""
    if len(args.offsets) < 2 or min(args.offsets) < 0:
        raise UsageError(f"--offsets are {args.offsets}; expected two or more, none below 0.")
    named = options.checkpoints(args, least=1)
    device = one_device(args.device)
    fairseq_ssl.register()
    models: dict[str, Any] = {}
    for name, paths in named.items():
        runs = [_one(path, device, args) for path in paths]
        size = range(len(args.offsets))
        mean = [[sum(r["similarity"][a][b] for r in runs) / len(runs) for b in size] for a in size]
        models[name] = {"similarity": mean, "least": min(map(min, mean)), "runs": runs}
    _draw(args, models)
    labels = [f"k={k}" for k in args.offsets]
    for name, model in models.items():
        rows = [
            [label, *(f"{cell:.3f}" for cell in row)]
            for label, row in zip(labels, model["similarity"], strict=True)
        ]
        print_table([name, *labels], rows)
    parameters = {"subset": args.subset, "offsets": args.offsets}
    options.publish(args, Signature("shift-similarity", parameters), {"models": models})
    return 0


def _one(path: Path, device: str, args: argparse.Namespace) -> dict[str, Any]:
    from fairseq_ssl.analysis.shift_similarity import similarities
    from fairseq_ssl.analysis.trained_models import TrainedModels

    trained = TrainedModels.load(path, args.data, device)
    dataset = trained.split(args.subset)
    done = progress(str(path), "sentences", len(dataset))
    found = similarities(trained, dataset, args.offsets, args.max_tokens, done)
    return {"checkpoint": str(path), "similarity": found.round(4).tolist()}


def _draw(args: argparse.Namespace, models: dict[str, Any]) -> None:
    from fairseq_ssl.analysis import figures

    labels = [str(k) for k in args.offsets]
    path = options.figure_path(args)
    with figures.figure(path, columns=len(models), width=3.6, height=3.4) as axes:
        for ax, (name, model) in zip(axes, models.items(), strict=True):
            figures.heat_map(ax, model["similarity"], labels, labels, (0.0, 1.0))
            ax.set_title(name)
            ax.set_xlabel("offset k")
        axes[0].set_ylabel("offset k")
