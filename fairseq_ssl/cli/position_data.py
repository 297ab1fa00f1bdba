"""``fairseq-ssl position-data``: the data sets on which the thesis compares positions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.console import watched
from fairseq_ssl.cli.kind_options import chosen_options
from fairseq_ssl.cli.options import check_new, one_writer
from fairseq_ssl.errors import MissingPackageError, UsageError
from fairseq_ssl.io.atomic import atomic_folder
from fairseq_ssl.signature import Signature
from fairseq_ssl.text import position_data
from fairseq_ssl.text.parallel_folder import PairReader, ParallelFolder, SentencePair
from fairseq_ssl.text.vocabulary import RESERVED

SUMMARY = "make data sets to compare positions on: long pairs dropped, sentences joined or swapped"
EXAMPLES = """\
  fairseq-ssl position-data extrapolate data-bin data-bin-extrapolate
  fairseq-ssl position-data interpolate text text-joined --sentences 10 --separator '<sep>'
  fairseq-ssl position-data swapped text-joined text-swapped"""

KINDS: dict[str, dict[str, Any]] = {
    "vanilla": {},
    "extrapolate": {"limit": 50},
    "interpolate": {"sentences": 10, "separator": "<sep>"},
    "swapped": {"separator": "<sep>"},
}
"""The options of each kind, with the thesis' values as defaults."""

LEAST = {"limit": 1, "sentences": 2}

Operation = Callable[[PairReader[Any]], Iterator[SentencePair[Any]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kind, the folders, and the options of some kinds."""
    parser.add_argument(
        "kind",
        choices=KINDS,
        metavar="KIND",
        help="vanilla: all pairs as they are; extrapolate: long pairs are dropped from train*; "
        "interpolate: neighbouring sentences are joined in every split; swapped: in joined "
        "sentences the first moves to the end",
    )
    parser.add_argument(
        "input",
        type=Path,
        metavar="INPUT",
        help="folder with the splits train*, valid* and test*: tokenized text (train.en, train.de "
        "or train.en.gz, ...), or what fairseq-preprocess writes (taken as that if an .idx is "
        "there)",
    )
    parser.add_argument(
        "output", type=Path, metavar="OUTPUT", help="folder to write, of the same form as INPUT"
    )
    parser.add_argument(
        "-s", "--source-lang", metavar="SRC", help="needed if INPUT has several language pairs"
    )
    parser.add_argument(
        "-t", "--target-lang", metavar="TGT", help="needed if INPUT has several language pairs"
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="extrapolate: the most tokens on either side of a training pair, the end of sentence "
        f"not counted; 1 or more (default: {KINDS['extrapolate']['limit']})",
    )
    parser.add_argument(
        "--sentences",
        type=int,
        metavar="N",
        help="interpolate: how many neighbouring sentences to join; 2 or more "
        f"(default: {KINDS['interpolate']['sentences']})",
    )
    parser.add_argument(
        "--separator",
        metavar="TOKEN",
        help="interpolate, swapped: what stands between joined sentences; added to a dictionary "
        f"that lacks it (default: {KINDS['swapped']['separator']})",
    )
    parser.add_argument(
        "--force",
        dest="overwrite",
        action="store_true",
        help="replace OUTPUT if it is there and was made by this command",
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Make the data set, then its name and its signature."""
    settings = _settings(args)
    output = _output(args)
    corpus = _open(args)
    operation = _operation(args.kind, settings, corpus)
    counts = {}
    with atomic_folder(output) as folder:
        for split in corpus.splits:
            reader = PairReader(split)
            pairs = watched(operation(reader), split.name, "pairs written")
            written = split.write(pairs, folder)
            counts[split.name] = {"pairs": reader.count, "written": written}
            remark = _remark(args.kind, settings, split.name, reader.count, written)
            print(f"{split.name}: {reader.count} pairs -> {written}{remark}", file=sys.stderr)
        for line in corpus.write_dictionaries(folder, settings.get("separator")):
            print(line, file=sys.stderr)
        known = {"form": corpus.form, "languages": "-".join(corpus.languages)}
        signature = Signature(
            "position-data",
            {"kind": args.kind, **settings, **known, "input": str(args.input), "splits": counts},
        )
        signature.write_beside(output)
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the kind's options; refuse those of another kind and values out of range."""
    settings = chosen_options(args, "position-data", args.kind, KINDS, LEAST)
    separator = settings.get("separator", "<sep>")
    if separator.split() != [separator] or separator in RESERVED:
        raise UsageError(
            f"--separator is {separator!r}; expected one token without spaces, and none of "
            f"{' '.join(RESERVED)}."
        )
    return settings


def _output(args: argparse.Namespace) -> Path:
    """Return where to write; refuse what would delete the input or something not made here."""
    output: Path = args.output.resolve()
    source: Path = args.input.resolve()
    replaced = {str(output), f"{output}.tmp", f"{output}.tmp.old"}
    if not replaced.isdisjoint(map(str, (source, *source.parents))):
        raise UsageError(f"{args.output} would replace the input. Name another folder.")
    check_new(args.output, args.overwrite)
    if not output.exists():
        return output
    beside = output.with_name(f"{output.name}.json")
    if not (
        beside.is_file() and '"method": "position-data"' in beside.read_text("utf-8", "replace")
    ):
        raise UsageError(
            f"{args.output} has no {beside.name} of this command beside it, so it is not replaced. "
            "Name another."
        )
    return output


def _open(args: argparse.Namespace) -> ParallelFolder[Any]:
    """Recognise the form of INPUT; text needs no fairseq."""
    languages = args.source_lang, args.target_lang
    if not any(args.input.glob("*.idx")):
        from fairseq_ssl.text.parallel_folder import TextFolder

        return TextFolder(args.input, *languages)
    try:
        from fairseq_ssl.data.binarized import BinarizedFolder
    except ImportError as error:
        raise MissingPackageError(
            "fairseq", "Binarized data", "bash scripts/setup.sh (see README, Install)"
        ) from error
    return BinarizedFolder(args.input, *languages)


def _operation(kind: str, settings: dict[str, Any], corpus: ParallelFolder[Any]) -> Operation:
    if kind == "vanilla":
        return iter
    if kind == "extrapolate":
        return partial(position_data.extrapolate, length=corpus.length, **settings)
    separators = corpus.separators(settings["separator"])
    if kind == "interpolate":
        sentences = settings["sentences"]
        return partial(position_data.interpolate, sentences=sentences, separators=separators)
    return partial(position_data.swapped, separators=separators)


def _remark(kind: str, settings: dict[str, Any], split: str, read: int, written: int) -> str:
    """Say what became of the pairs that are not there any more."""
    if kind == "interpolate":
        return f" ({read - written * settings['sentences']} left over)"
    if kind == "extrapolate" and split.startswith("train"):
        return f" (longer than {settings['limit']}: {read - written})"
    return ""
