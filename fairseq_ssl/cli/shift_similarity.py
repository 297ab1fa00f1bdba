"""``fairseq-ssl shift-similarity``: similarity of encoder states under shifted positions."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import analysis_options as analysis
from fairseq_ssl.cli import options

EXAMPLES = """\
  fairseq-ssl shift-similarity data-bin -o similarity \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl shift-similarity data-bin --offsets 0,50,100 -o similarity -c shifted=run.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``shift-similarity`` to the parser."""
    analysis.add_checkpoints(parser, subset="valid")
    parser.add_argument(
        "--offsets",
        type=analysis.integers,
        default="0,100,250,500",
        metavar="K,K,...",
        help="shifts of all positions in tokens, k in figure 6.3, 0 or more (default: %(default)s)",
    )


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Compare encoder states with and without shifts, for each checkpoint. Write the similarity."""
    arguments = analysis.arguments(args)
    from fairseq_ssl.analysis.shift_similarity import compare_shifted_states

    result = compare_shifted_states(
        offsets=args.offsets, subset=args.subset, max_tokens=args.max_tokens, **arguments
    )
    analysis.publish(args, result)
