"""``fairseq-ssl token-wins``: share of gold tokens that score higher than with a baseline."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import analysis_options as analysis
from fairseq_ssl.cli import options

EXAMPLES = """\
  fairseq-ssl token-wins data-bin/extrapolate -o wins \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl token-wins data-bin/interpolate -o wins --positions 100,200,300,400,500 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``token-wins`` to the parser."""
    analysis.add_checkpoints(parser, subset="valid", several=True)
    parser.add_argument(
        "--ranks",
        type=analysis.integers,
        default="5000,15000,25000",
        metavar="N,N,...",
        help="last frequency rank of each row, 1 for the most frequent token in the training "
        "targets; an additional row has the remaining ranks (default: %(default)s)",
    )
    parser.add_argument(
        "--positions",
        type=analysis.integers,
        default="10,20,30,40,50,60,70",
        metavar="N,N,...",
        help="last position of each column, from 1; an additional column has the "
        "remaining positions (default: %(default)s)",
    )


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Score gold tokens with each checkpoint, and compare the scores with the baseline."""
    subsets = analysis.subsets(args)
    arguments = analysis.arguments(args)
    from fairseq_ssl.analysis.token_wins import compare_gold_tokens

    result = compare_gold_tokens(
        ranks=args.ranks,
        positions=args.positions,
        subsets=subsets,
        max_tokens=args.max_tokens,
        **arguments,
    )
    analysis.publish(args, result)
