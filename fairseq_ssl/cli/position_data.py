"""``fairseq-ssl position-data``: data sets of the thesis for comparing position representations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
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
KINDS = {
    VANILLA: "copy all splits unchanged",
    EXTRAPOLATE: "keep training pairs of at most --limit tokens, and other splits unchanged",
    INTERPOLATE: "join adjacent sentences in all splits",
    SWAPPED: "move the first of joined sentences to the end",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each kind of data set."""
    steps = Steps(parser, "KIND", "kinds of data")
    for kind, summary in KINDS.items():
        step = steps.add(kind, summary, options.one_writer(_write))
        step.set_defaults(kind=kind)
        step.add_argument(
            "input",
            type=Path,
            metavar="INPUT",
            help="folder with the splits train*, valid* and test*: tokenized text (train.en, "
            "train.de or train.en.gz, ...), or a folder of fairseq-preprocess",
        )
        step.add_argument(
            "output", type=Path, metavar="OUTPUT", help="output folder, in the format of INPUT"
        )
        for short, side in (("-s", "source"), ("-t", "target")):
            step.add_argument(
                *(short, f"--{side}-lang"),
                metavar="LANG",
                help=f"{side} language, required if INPUT has several language pairs",
            )
        if kind == EXTRAPOLATE:
            options.add_integer(
                step,
                "--limit",
                "max length of a side of a training pair in tokens, without </s>",
                50,
            )
        if kind == INTERPOLATE:
            options.add_integer(
                step, "--sentences", "number of adjacent sentences to join", 10, minimum=2
            )
        if kind in (INTERPOLATE, SWAPPED):
            step.add_argument(
                "--separator",
                default=SEPARATOR,
                metavar="TOKEN",
                help="token between joined sentences, added to dictionaries that lack it (default: "
                "%(default)s)",
            )
        options.add_replace(step, "an OUTPUT of this command")


def _write(args: argparse.Namespace) -> None:
    names = ("limit", "sentences", "separator", "overwrite")
    summary = write_position_data(
        _open(args),
        args.input,
        args.output,
        args.kind,
        progress=progress,
        **{name: value for name, value in vars(args).items() if name in names},
    )
    for split, (read, written) in summary.splits.items():
        note = ""
        if args.kind == INTERPOLATE:
            note = f" ({read - written * args.sentences} left over)"
        elif args.kind == EXTRAPOLATE and split.startswith("train"):
            note = f" (longer than {args.limit}: {read - written})"
        print_lines(f"{split}: {read} pairs -> {written}{note}")
    print_lines(*summary.notes, summary.signature, f"wrote {args.output}")


def _open(args: argparse.Namespace) -> ParallelFolder[Any]:
    """Open INPUT, as binarized data if it has .idx files and as text otherwise."""
    languages = args.source_lang, args.target_lang
    if not any(args.input.glob("*.idx")):
        return TextFolder(args.input, *languages)
    from fairseq_ssl.data.binarized import BinarizedFolder

    return BinarizedFolder(args.input, *languages)
