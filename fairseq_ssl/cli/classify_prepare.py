"""``fairseq-ssl classify prepare``: create a data folder of labeled and unlabeled text."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps

HELD_OUT = ("valid", "test")


def add(steps: Steps) -> None:
    """Add the subcommand ``prepare`` and its arguments."""
    parser = steps.add(
        "prepare",
        "create the data folder of --task semi_supervised_classification from labeled and "
        "unlabeled texts",
        run,
    )
    parser.add_argument(
        "labeled",
        type=Path,
        metavar="LABELED",
        help="training texts, each line a label, a tab and a text; .gz by suffix",
    )
    options.add_output(parser, "data folder", "FOLDER")
    parser.add_argument(
        "--unlabeled",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="unlabeled texts, one per line; .gz by suffix (default: none)",
    )
    parser.add_argument(
        "--extra-unlabeled",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="additional unlabeled texts for imitators, excluded from the vocabularies and from "
        "the data of the language model; .gz by suffix (default: none)",
    )
    _add_held_out(parser)
    parser.add_argument(
        "--train-lines",
        type=int,
        metavar="N",
        help="number of texts of LABELED that keep their label, selected by the same hash; the "
        "others become unlabeled; 1 or more (default: all)",
    )
    _add_views(parser)
    parser.add_argument(
        "--train-test-overlap",
        choices=("reject", "drop", "keep"),
        default="reject",
        help="treatment of unlabeled or training texts that are also valid or test texts, up to "
        "case, spaces and punctuation (default: %(default)s)",
    )
    options.add_replace(parser, "FOLDER")


def _add_held_out(parser: argparse.ArgumentParser) -> None:
    for name in HELD_OUT:
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"{name} texts, in the format of LABELED"
        )
        parser.add_argument(
            f"--{name}-size",
            type=size,
            metavar="SIZE",
            help=f"texts of LABELED to use as {name} texts, selected by a hash of the text: a "
            "number, 1 or more, or a share between 0 and 1",
        )


def size(word: str) -> float:
    """Return an integer, or a number such as 0.1."""
    return int(word) if word.isdecimal() else float(word)


def _add_views(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        default="words",
        metavar="NAME",
        help="tokenizer for the expert: words: sequences of letters and digits, and single "
        "punctuation marks; spaces: split at spaces; bert:FOLDER: tokenizer of a BERT or RoBERTa, "
        "for --arch bert_classifier (default: %(default)s)",
    )
    parser.add_argument("--lower", action="store_true", help="lowercase the text of both views")
    parser.add_argument(
        "--min-count",
        type=int,
        metavar="N",
        help="min count of a word in labeled and unlabeled texts, 1 or more (default: 2, as in the "
        "thesis; 1 with --tokenizer bert:)",
    )
    parser.add_argument(
        "--subword-vocab-size",
        type=int,
        default=20000,
        metavar="N",
        help="subword vocabulary size for the imitators, of a sentencepiece BPE model trained on "
        "training and unlabeled texts, 1 or more (default: %(default)s, the number of merges in "
        "the thesis)",
    )


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Create the data folder and print its signature."""
    options.check_new(args.output, args.overwrite)
    from fairseq_ssl.data.classification_preparation import PreparationConfig, prepare_folder

    names = PreparationConfig.__dataclass_fields__
    config = PreparationConfig(**{name: getattr(args, name) for name in names})
    signature = prepare_folder(config, args.output, progress)
    print_lines(signature, f"wrote {args.output}")
