"""``fairseq-ssl position-data``: create data sets for comparing position representations."""

from __future__ import annotations

import argparse
from typing import Any

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.text.parallel_folder import ParallelFolder, TextFolder
from fairseq_ssl.text.position_data import (
    EXTRAPOLATE,
    INTERPOLATE,
    OPTIONS,
    PositionDataConfig,
    write_position_data,
)

EXAMPLES = """\
  fairseq-ssl position-data extrapolate data-bin data-bin-extrapolate
  fairseq-ssl position-data interpolate text text-joined --sentences 10 --separator '<sep>'
  fairseq-ssl position-data swapped text-joined text-swapped"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``position-data`` to the parser."""
    parser.add_argument(
        "kind",
        choices=tuple(OPTIONS),
        metavar="KIND",
        help="kind of data set; vanilla: a copy of all splits; extrapolate: training pairs of at "
        "most --limit tokens, and a copy of the other splits; interpolate: adjacent sentences "
        "joined; swapped: output of interpolate, with the first sentence of each line at its end",
    )
    options.add_path(
        parser,
        "input",
        "folder with the splits train*, valid* and test*: tokenized text (train.en, train.de "
        "or train.en.gz, ...), or a folder created by fairseq-preprocess",
        "INPUT",
    )
    options.add_path(parser, "output", "output folder, in the same format as INPUT", "OUTPUT")
    for short, side in (("-s", "source"), ("-t", "target")):
        parser.add_argument(
            *(short, f"--{side}-lang"),
            metavar="LANG",
            help=f"{side} language, required if INPUT has several language pairs",
        )
    add_options(parser, PositionDataConfig)
    options.add_overwrite(parser, "OUTPUT if it was created by this command")


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Write the data set, and print the number of pairs in each split."""
    chosen = passed(args, PositionDataConfig)
    for name in chosen:
        if name not in OPTIONS[args.kind]:
            kinds = (kind for kind, names in OPTIONS.items() if name in names)
            raise UsageError(f"{flag(name)} is for {' and '.join(kinds)} only. Remove it.")
    config = PositionDataConfig(**chosen)
    signature, notes = write_position_data(
        _open(args),
        args.input,
        args.output,
        args.kind,
        config,
        overwrite=args.overwrite,
        progress=progress,
    )
    for split, counts in signature.details["splits"].items():
        note, read, written = "", counts["pairs"], counts["written"]
        if args.kind == INTERPOLATE:
            note = f" ({read - written * config.sentences} left over)"
        elif args.kind == EXTRAPOLATE and split.startswith("train"):
            note = f" (longer than {config.limit}: {read - written})"
        print_lines(f"{split}: {read} pairs -> {written}{note}")
    print_lines(*notes, signature, f"wrote {args.output}")


def _open(args: argparse.Namespace) -> ParallelFolder[Any]:
    """Open INPUT as binarized data if it contains .idx files, else as text."""
    languages = args.source_lang, args.target_lang
    if not any(args.input.glob("*.idx")):
        return TextFolder(args.input, *languages)
    from fairseq_ssl.data.binarized import BinarizedFolder

    return BinarizedFolder(args.input, *languages)
