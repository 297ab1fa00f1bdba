"""Subwords by sentencepiece: train a model, cut text with it, make fairseq's dictionary of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import sentencepiece

SPECIAL = ("<unk>", "<s>", "</s>")
"""Pieces that fairseq has of its own."""


def train(args: argparse.Namespace) -> None:
    """Write MODEL.model and MODEL.vocab, of byte-pair encoding over all of the text."""
    sentencepiece.SentencePieceTrainer.train(
        input=[str(path) for path in args.text],
        model_prefix=str(args.model),
        vocab_size=args.size,
        model_type="bpe",
        character_coverage=1.0,
        user_defined_symbols=args.symbol,
        pad_id=-1,
        minloglevel=2,
    )


def encode(args: argparse.Namespace) -> None:
    """Print the pieces of each line, with spaces between."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{args.model}.model")
    with args.text.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            print(*pieces.encode(line.strip(), out_type=str))


def dictionary(args: argparse.Namespace) -> None:
    """Print all pieces as fairseq's --srcdict takes them, so that none is ever unknown."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{args.model}.model")
    for number in range(pieces.get_piece_size()):
        piece = pieces.id_to_piece(number)
        if piece not in SPECIAL:
            print(piece, 1)


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    for function in (train, encode, dictionary):
        verb = verbs.add_parser(function.__name__, help=function.__doc__)
        verb.set_defaults(run=function)
        verb.add_argument("model", type=Path, metavar="MODEL", help="path without .model")
        if function is encode:
            verb.add_argument("text", type=Path, metavar="TEXT")
        if function is train:
            verb.add_argument("text", type=Path, nargs="+", metavar="TEXT")
            verb.add_argument("--size", type=int, required=True, help="of the vocabulary")
            verb.add_argument(
                "--symbol", action="append", default=[], help="a piece that is never cut"
            )
    args = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    args.run(args)


if __name__ == "__main__":
    main()
