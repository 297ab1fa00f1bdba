"""``fairseq-ssl analyze``: compare checkpoints by their translations, scores and encoder states."""

from __future__ import annotations

import argparse
from typing import Any

import fairseq_ssl
from fairseq_ssl import analysis
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, print_table, progress
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.options import add_options, options_of, passed

EXAMPLES = """\
  fairseq-ssl analyze length-bleu data-bin/extrapolate -o lengths --subset valid,test \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt -c relative=runs/relative.pt
  fairseq-ssl analyze length-bleu data-bin/interpolate -o lengths --length-bounds 100,150,200,250 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl analyze swapped-bleu data-bin/interpolate -o swapped --lines 500 --beam 1 \\
      -c absolute=runs/absolute.1.pt -c absolute=runs/absolute.2.pt -c shifted=runs/shifted.1.pt
  fairseq-ssl analyze token-wins data-bin/interpolate -o wins \\
      --position-bounds 100,200,300,400,500 -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl analyze shift-similarity data-bin -o similarity --offsets 0,50,100 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt"""


KINDS: dict[str, tuple[str, type[Any], str]] = {
    "length-bleu": (
        "BLEU by source length, and the gain over a baseline checkpoint",
        analysis.LengthBleuConfig,
        "score_by_length",
    ),
    "swapped-bleu": (
        "BLEU of the first sentence in joined lines, before and after it is moved to the end",
        analysis.SwappedBleuConfig,
        "score_swapped",
    ),
    "token-wins": (
        "fraction of gold tokens with a higher probability than under a baseline checkpoint",
        analysis.TokenWinsConfig,
        "compare_gold_tokens",
    ),
    "shift-similarity": (
        "cosine similarity of encoder states under shifted positions",
        analysis.ShiftSimilarityConfig,
        "compare_shifted_states",
    ),
}
"""Summary, config class and `fairseq_ssl.analysis` function name for each kind of analysis."""
BATCHES = ("subset", "max_tokens")
DECODING = ("beam", "lenpen", "subwords", "moses", "tokenize")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each kind of analysis."""
    kinds = Subcommands(parser, "KIND", "kinds of analysis")
    for name, (summary, config, _) in KINDS.items():
        subcommand = kinds.add(name, summary, _run)
        _add_data(subcommand, config)
        own = [option for option in options_of(config) if option not in (*BATCHES, *DECODING)]
        add_options(subcommand, config, own)
        if "beam" in options_of(config):
            add_options(subcommand.add_argument_group("decoding and scoring"), config, DECODING)


def _add_data(parser: argparse.ArgumentParser, config: type[Any]) -> None:
    options.add_path(parser, "data", "data folder created by fairseq-preprocess", "DATA")
    parser.add_argument(
        "-c",
        "--checkpoint",
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help="checkpoint and name of a model; repeat for more models, with the baseline (if any) "
        "first; results with the same NAME, such as runs with different seeds, are averaged",
    )
    add_options(parser, config, ["subset"])
    options.add_output(
        parser, "prefix of the result file (PREFIX.json) and the figure (PREFIX.FORMAT)", "PREFIX"
    )
    parser.add_argument(
        "--format",
        choices=("png", "svg", "pdf"),
        default="png",
        help="format of the figure (default: %(default)s)",
    )
    options.add_one_device(parser)
    add_options(parser, config, ["max_tokens"])


@options.one_writer
def _run(args: argparse.Namespace) -> None:
    """Run the analysis, write the result and its figure, and print the tables."""
    _, config, name = KINDS[args.subcommand]
    chosen = config(**passed(args, config))
    device = options.one_device(args.device)
    fairseq_ssl.register()
    result: analysis.AnalysisResult = getattr(analysis, name)(
        options.named_files(args.checkpoint), args.data, chosen, device=device, progress=progress
    )
    paths = result.write(args.output, args.format)
    for header, rows in result.tables():
        print_table(header, rows)
    print_lines(result.signature, "wrote {} and {}".format(*paths))
