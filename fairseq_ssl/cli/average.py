"""``fairseq-ssl average``: the mean of several checkpoints' weights."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq_ssl.cli.options import one_writer
from fairseq_ssl.errors import UsageError
from fairseq_ssl.signature import Signature

SUMMARY = "average the weights of several checkpoints of one run, or take out its moving average"
EXAMPLES = """\
  fairseq-ssl average checkpoints --last 10 --by update -o averaged.pt
  fairseq-ssl average checkpoints --last 5 --upto 20 -o averaged.pt
  fairseq-ssl average checkpoints --best 3 -o averaged.pt
  fairseq-ssl average checkpoint7.pt checkpoint8.pt -o averaged.pt
  fairseq-ssl average checkpoint_best.pt --ema -o averaged.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to average and where to put it."""
    parser.add_argument(
        "inputs",
        nargs="+",
        type=Path,
        metavar="CHECKPOINT",
        help="checkpoint files; or one folder of a run, with --last or --best",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="where to write the mean"
    )
    parser.add_argument(
        "--ema",
        action="store_true",
        help="take the exponential moving average that a training with --store-ema keeps in each "
        "checkpoint, and not the weights",
    )
    which = parser.add_argument_group("which checkpoints of a folder")
    choice = which.add_mutually_exclusive_group()
    choice.add_argument("--last", type=int, metavar="N", help="the newest N, 1 or more")
    choice.add_argument(
        "--best",
        type=int,
        metavar="N",
        help="the N with the best validation value, as stored in each checkpoint, 1 or more",
    )
    which.add_argument(
        "--by",
        choices=("epoch", "update"),
        help="with --last: those saved at the end of epochs (checkpointN.pt) or at intervals "
        "of updates (checkpoint_E_N.pt) (default: epoch)",
    )
    which.add_argument(
        "--upto", type=int, metavar="N", help="with --last: none newer than epoch or update N"
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Select, average, write the mean and its signature."""
    _check(args)
    from fairseq_ssl.checkpoints import average, write_checkpoint

    paths = _select(args)
    print(f"averaging {len(paths)} checkpoint{'s'[: len(paths) > 1]}", file=sys.stderr)
    for path in paths:
        print(f"  {path}", file=sys.stderr)
    write_checkpoint(average(paths, moving=args.ema), args.output)
    how = "last" if args.last else "best" if args.best else "named"
    signature = Signature(
        "average",
        {
            "which": how,
            **({"ema": True} if args.ema else {}),
            "n": len(paths),
            "by": args.by,
            "checkpoints": [str(p) for p in paths],
        },
    )
    signature.write_beside(args.output)
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together before any file is read."""
    for flag in ("last", "best"):
        value = getattr(args, flag)
        if value is not None and value < 1:
            raise UsageError(f"--{flag} is {value}; expected 1 or more.")
    if args.last is None and (args.by or args.upto is not None):
        raise UsageError("--by and --upto go with --last N only.")
    folders = [path for path in args.inputs if path.is_dir()]
    if args.last or args.best:
        if len(args.inputs) != 1:
            raise UsageError("--last and --best take one folder, not several files.")
    elif folders:
        raise UsageError(f"{folders[0]} is a folder: say --last N or --best N.")


def _select(args: argparse.Namespace) -> list[Path]:
    from fairseq_ssl.checkpoints import best_checkpoints, last_checkpoints

    if args.last:
        return last_checkpoints(args.inputs[0], args.last, args.by or "epoch", args.upto)
    if args.best:
        return best_checkpoints(args.inputs[0], args.best)
    return list(args.inputs)
