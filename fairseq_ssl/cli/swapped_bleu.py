"""``fairseq-ssl swapped-bleu``: BLEU of the first sentence, in place and moved to the end."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import analysis_options as analysis
from fairseq_ssl.cli import options

EXAMPLES = """\
  fairseq-ssl swapped-bleu data-bin/interpolate -o swapped \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl swapped-bleu data-bin/interpolate -o swapped --lines 500 --beam 1 \\
      -c absolute=runs/absolute.1.pt -c absolute=runs/absolute.2.pt -c shifted=runs/shifted.1.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``swapped-bleu`` to the parser."""
    analysis.add_checkpoints(parser, subset="train")
    parser.add_argument(
        "--lines",
        type=int,
        default=10000,
        metavar="N",
        help="number of random lines of the split, 1 or more (default: %(default)s, as in the "
        "thesis)",
    )
    options.add_seed(parser)
    parser.add_argument(
        "--separator", default="<sep>", help="token between sentences (default: %(default)s)"
    )
    analysis.add_decoding(parser)


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Translate joined sentences in both orders with each checkpoint, and compare BLEU."""
    arguments = analysis.arguments(args)
    from fairseq_ssl.analysis.swapped_bleu import score_swapped

    result = score_swapped(
        subset=args.subset,
        lines=args.lines,
        seed=args.seed,
        **arguments,
        **analysis.decoding_arguments(args),
    )
    analysis.publish(args, result)
