"""``fairseq-ssl average``: average the weights of checkpoints."""

from __future__ import annotations

import argparse

from fairseq_ssl.checkpoints.selection import CheckpointSelection, check_average_output
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.outputs import write_signature
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.signature import Signature

EXAMPLES = """\
  fairseq-ssl average checkpoints --last 5 --by update -o averaged.pt
  fairseq-ssl average checkpoints --best 3 -o averaged.pt
  fairseq-ssl average checkpoint7.pt checkpoint8.pt -o averaged.pt
  fairseq-ssl average checkpoint_best.pt --ema -o averaged.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``average`` to the parser."""
    what = "checkpoints to average or, with --last or --best, the folder of a training run"
    options.add_path(parser, "inputs", what, "CHECKPOINT", nargs="+")
    options.add_output(parser, "file for the averaged checkpoint")
    parser.add_argument(
        "--ema",
        action="store_true",
        help="average the EMA weights (exponential moving average, saved with --store-ema) instead "
        "of the model weights",
    )
    group = parser.add_argument_group("checkpoints of a folder")
    number = group.add_mutually_exclusive_group()
    add_options(number, CheckpointSelection, ["last", "best"])
    add_options(group, CheckpointSelection, ["by"])


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Average the selected checkpoints, and write the averaged checkpoint and its signature."""
    selection = CheckpointSelection(**passed(args, CheckpointSelection))
    paths = selection.paths(args.inputs)
    options.check_output(args.output, *paths)
    check_average_output(args.output, args.inputs)
    from fairseq_ssl.checkpoints import average, write_checkpoint

    print_lines(
        f"averaging {len(paths)} checkpoint{'s'[: len(paths) > 1]}",
        *(f"  {path}" for path in paths),
    )
    write_checkpoint(average(paths, moving=args.ema), args.output)
    signature = Signature(
        "average",
        {
            "which": "last" if selection.last else "best" if selection.best else "named",
            **({"ema": True} if args.ema else {}),
            "n": len(paths),
            "by": selection.by,
            "checkpoint_digest": content_digest(*paths),
        },
        {"checkpoints": [str(path) for path in paths]},
    )
    write_signature(signature, args.output)
    print_lines(signature, f"wrote {args.output}")
