"""``fairseq-ssl position-data``: data sets of the thesis for comparing position representations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.text.parallel_folder import ParallelFolder, TextFolder
from fairseq_ssl.text.position_data import (
    EXTRAPOLATE,
    INTERPOLATE,
    SEPARATOR,
    SWAPPED,
    VANILLA,
    write_position_data,
)

EXAMPLES = """\
  fairseq-ssl position-data extrapolate data-bin data-bin-extrapolate
  fairseq-ssl position-data interpolate text text-joined --sentences 10 --separator '<sep>'
  fairseq-ssl position-data swapped text-joined text-swapped"""
KINDS = (VANILLA, EXTRAPOLATE, INTERPOLATE, SWAPPED)
KINDS_OF = {
    "limit": (EXTRAPOLATE,),
    "sentences": (INTERPOLATE,),
    "separator": (INTERPOLATE, SWAPPED),
}
"""Kinds of data that an option belongs to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``position-data`` to the parser."""
    parser.add_argument(
        "kind",
        choices=KINDS,
        metavar="KIND",
        help="vanilla: copy all splits unchanged; extrapolate: keep training pairs of at most "
        "--limit tokens, and other splits unchanged; interpolate: join adjacent sentences in all "
        "splits; swapped: move the first of joined sentences to the end",
    )
    parser.add_argument(
        "input",
        type=Path,
        metavar="INPUT",
        help="folder with the splits train*, valid* and test*: tokenized text (train.en, train.de "
        "or train.en.gz, ...), or a folder of fairseq-preprocess",
    )
    parser.add_argument(
        "output", type=Path, metavar="OUTPUT", help="output folder, in the format of INPUT"
    )
    for short, side in (("-s", "source"), ("-t", "target")):
        parser.add_argument(
            *(short, f"--{side}-lang"),
            metavar="LANG",
            help=f"{side} language, required if INPUT has several language pairs",
        )
    parser.add_argument(
        "--limit",
        type=options.integer(1),
        metavar="N",
        help="for extrapolate: max length of a side of a training pair in tokens, without </s>, 1 "
        "or more (default: 50)",
    )
    parser.add_argument(
        "--sentences",
        type=options.integer(2),
        metavar="N",
        help="for interpolate: number of adjacent sentences to join, 2 or more (default: 10)",
    )
    parser.add_argument(
        "--separator",
        metavar="TOKEN",
        help="for interpolate and swapped: token between joined sentences, added to dictionaries "
        f"that lack it (default: {SEPARATOR})",
    )
    options.add_replace(parser, "an OUTPUT of this command")


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Write the data set, and print the number of pairs of each split."""
    settings = {name: getattr(args, name) for name in KINDS_OF if getattr(args, name) is not None}
    for name in settings:
        if args.kind not in KINDS_OF[name]:
            raise UsageError(f"{flag(name)} is for {' and '.join(KINDS_OF[name])} only.")
    summary = write_position_data(
        _open(args),
        args.input,
        args.output,
        args.kind,
        overwrite=args.overwrite,
        progress=progress,
        **settings,
    )
    used = summary.signature.parameters
    for split, (read, written) in summary.splits.items():
        note = ""
        if args.kind == INTERPOLATE:
            note = f" ({read - written * used['sentences']} left over)"
        elif args.kind == EXTRAPOLATE and split.startswith("train"):
            note = f" (longer than {used['limit']}: {read - written})"
        print_lines(f"{split}: {read} pairs -> {written}{note}")
    print_lines(*summary.notes, summary.signature, f"wrote {args.output}")


def _open(args: argparse.Namespace) -> ParallelFolder[Any]:
    """Open INPUT, as binarized data if it has .idx files and as text otherwise."""
    languages = args.source_lang, args.target_lang
    if not any(args.input.glob("*.idx")):
        return TextFolder(args.input, *languages)
    from fairseq_ssl.data.binarized import BinarizedFolder

    return BinarizedFolder(args.input, *languages)
