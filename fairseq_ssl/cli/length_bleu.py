"""``fairseq-ssl length-bleu``: BLEU by source length, compared with a baseline checkpoint."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import analysis_options as analysis
from fairseq_ssl.cli import options

EXAMPLES = """\
  fairseq-ssl length-bleu data-bin/extrapolate -o lengths --subset valid,test \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt -c relative=runs/relative.pt
  fairseq-ssl length-bleu data-bin/interpolate -o lengths --ends 100,150,200,250 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``length-bleu`` to the parser."""
    analysis.add_checkpoints(parser, subset="valid", several=True)
    parser.add_argument(
        "--ends",
        type=analysis.integers,
        default="10,20,30,40,50,60,70",
        metavar="N,N,...",
        help="max length of each bucket, in source tokens without </s>; an additional bucket has "
        "longer sentences (default: %(default)s)",
    )
    parser.add_argument(
        "--separator",
        default="<sep>",
        help="token to remove from outputs and references (default: %(default)s)",
    )
    analysis.add_decoding(parser)


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Translate with each checkpoint. Print and plot BLEU by source length, with the gains."""
    subsets = analysis.subsets(args)
    arguments = analysis.arguments(args)
    from fairseq_ssl.analysis.length_bleu import score_by_length

    decoding = analysis.decoding_arguments(args)
    analysis.publish(
        args, score_by_length(ends=args.ends, subsets=subsets, **arguments, **decoding)
    )
