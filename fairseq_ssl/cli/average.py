"""``fairseq-ssl average``: average the weights of checkpoints."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.outputs import write_signature
from fairseq_ssl.signature import Signature

EXAMPLES = """\
  fairseq-ssl average checkpoints --last 10 --by update -o averaged.pt
  fairseq-ssl average checkpoints --last 5 --by update -o averaged.pt
  fairseq-ssl average checkpoints --best 3 -o averaged.pt
  fairseq-ssl average checkpoint7.pt checkpoint8.pt -o averaged.pt
  fairseq-ssl average checkpoint_best.pt --ema -o averaged.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``average`` to the parser."""
    parser.add_argument(
        "inputs",
        nargs="+",
        type=Path,
        metavar="CHECKPOINT",
        help="checkpoints, or the folder of a run with --last or --best",
    )
    options.add_output(parser, "averaged checkpoint")
    parser.add_argument(
        "--ema",
        action="store_true",
        help="average the exponential moving averages that --store-ema stores in checkpoints, in "
        "place of the weights",
    )
    which = parser.add_argument_group("checkpoints of a folder")
    choice = which.add_mutually_exclusive_group()
    choice.add_argument(
        "--last", type=int, metavar="N", help="number of last checkpoints, 1 or more"
    )
    choice.add_argument(
        "--best",
        type=int,
        metavar="N",
        help="number of checkpoints with the best validation scores, 1 or more",
    )
    which.add_argument(
        "--by",
        choices=("epoch", "update"),
        help="with --last: checkpoints saved after epochs (checkpointN.pt) or after updates "
        "(checkpoint_E_N.pt) (default: epoch)",
    )


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Write the average of the selected checkpoints and its signature."""
    _check(args)
    from fairseq_ssl.checkpoints import average, check_average_output, write_checkpoint

    paths = _select(args)
    options.check_output(args.output, *paths)
    check_average_output(args.output, args.inputs)
    shown = (f"  {path}" for path in paths)
    print_lines(f"averaging {len(paths)} checkpoint{'s'[: len(paths) > 1]}", *shown)
    write_checkpoint(average(paths, moving=args.ema), args.output)
    how = "last" if args.last else "best" if args.best else "named"
    signature = Signature(
        "average",
        {
            "which": how,
            **({"ema": True} if args.ema else {}),
            "n": len(paths),
            "by": args.by,
            "checkpoint_digest": content_digest(*paths),
        },
        {"checkpoints": [str(p) for p in paths]},
    )
    write_signature(signature, args.output)
    print_lines(signature, f"wrote {args.output}")


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for incompatible options, before checkpoints are read."""
    for flag in ("last", "best"):
        value = getattr(args, flag)
        if value is not None and value < 1:
            raise UsageError(f"--{flag} is {value}. Expected 1 or more.")
    if args.by and args.last is None:
        raise UsageError("--by needs --last.")
    folders = [path for path in args.inputs if path.is_dir()]
    if args.last or args.best:
        if len(args.inputs) != 1:
            raise UsageError("--last and --best need one folder.")
    elif folders:
        raise UsageError(f"{folders[0]} is a folder. Pass --last or --best.")


def _select(args: argparse.Namespace) -> list[Path]:
    from fairseq_ssl.checkpoints import best_checkpoints, last_checkpoints

    if args.last:
        return last_checkpoints(args.inputs[0], args.last, args.by or "epoch")
    if args.best:
        return best_checkpoints(args.inputs[0], args.best)
    return list(args.inputs)
