"""Options and output of the verbs that compare checkpoints."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, print_table, progress
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.scoring import MAX_PENALTY

if TYPE_CHECKING:
    from fairseq_ssl.analysis.results import AnalysisResult


def add_checkpoints(parser: argparse.ArgumentParser, subset: str, several: bool = False) -> None:
    """Add the options of data, checkpoints, output and device. `subset` is the default split."""
    parser.add_argument("data", type=Path, metavar="DATA", help="data folder of fairseq-preprocess")
    parser.add_argument(
        "-c",
        "--checkpoint",
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help="name and checkpoint of a model, first that of the baseline, if there is one; "
        "checkpoints with the same name are seeds, which are averaged",
    )
    parser.add_argument(
        "--subset",
        default=subset,
        metavar="SPLIT,..." if several else "SPLIT",
        help="splits of the data, concatenated, for example valid,test (default: %(default)s)"
        if several
        else "split of the data (default: %(default)s)",
    )
    options.add_output(
        parser, "prefix of the results, PREFIX.json, and of the figure, PREFIX.FORMAT", "PREFIX"
    )
    parser.add_argument(
        "--format",
        choices=("png", "svg", "pdf"),
        default="png",
        help="format of the figure (default: %(default)s)",
    )
    options.add_one_device(parser)
    options.add_integer(parser, "--max-tokens", "max source tokens in a batch, with padding", 4000)


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add the options of beam search, detokenization and BLEU."""
    decoding = parser.add_argument_group("decoding and scoring")
    options.add_integer(decoding, "--beam", "beam size", 4)
    decoding.add_argument(
        "--lenpen",
        type=options.number(-MAX_PENALTY, MAX_PENALTY),
        default=1.0,
        metavar="X",
        help="length penalty, -20 to 20 (default: %(default)s)",
    )
    options.add_rewriting(decoding)
    decoding.add_argument(
        "--tokenize", default="13a", help="tokenizer of sacreBLEU (default: %(default)s)"
    )


def integers(words: str) -> list[int]:
    """Return the integers in a string such as ``10,20,30``."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{words!r} is not a list of integers, such as 10,20,30."
        ) from None


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Register the plug-in and select the device. Return keyword arguments of all analyses."""
    device = options.one_device(args.device)
    fairseq_ssl.register()
    return {
        "checkpoints": options.named_files(args.checkpoint),
        "data": args.data,
        "device": device,
        "progress": progress,
    }


def decoding_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments `search` and `text` of analyses that decode."""
    from fairseq_ssl.analysis.trained_models import BleuOptions, SearchOptions

    search = SearchOptions(beam=args.beam, lenpen=args.lenpen, max_tokens=args.max_tokens)
    text = BleuOptions(args.subwords, args.moses, args.tokenize, args.separator)
    return {"search": search, "text": text}


def subsets(args: argparse.Namespace) -> list[str]:
    """Return the names of splits in --subset. Raise UsageError for empty or repeated names."""
    names: list[str] = args.subset.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"--subset is {args.subset!r}. Expected names of splits, each once.")
    return names


def publish(args: argparse.Namespace, result: AnalysisResult) -> None:
    """Write the result and its figure. Print the tables, the signature and the paths."""
    paths = result.write(args.output, args.format)
    for header, rows in result.tables():
        print_table(header, rows)
    print_lines(result.signature, "wrote {} and {}".format(*paths))
