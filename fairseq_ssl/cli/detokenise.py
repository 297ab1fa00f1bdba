"""``fairseq-ssl detokenise``: from tokens, or what fairseq-generate printed, to plain text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator

from fairseq_ssl.cli.line_stream import add_file, add_output, check_output, stream, write
from fairseq_ssl.errors import DataError
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.detokenise import SUBWORDS, detokeniser

SUMMARY = "join subwords, undo Moses' tokenisation, take lines out of fairseq-generate's output"
EXAMPLES = """\
  fairseq-ssl detokenise < test.bpe.de > test.de
  fairseq-ssl detokenise generate.txt --field H --subwords subword-nmt --moses de > test.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the input and what to undo."""
    add_file(parser, "tokenised lines, or what fairseq-generate printed")
    add_output(parser)
    add_rewriting(parser)
    parser.add_argument(
        "--drop", metavar="TOKEN", help="leave this token out, as the <sep> of joined sentences"
    )
    parser.add_argument(
        "--field",
        choices=("S", "T", "H"),
        help="the input is what fairseq-generate printed: take its sources, targets or best "
        "hypotheses, in the order of the data",
    )


def add_rewriting(parser: argparse._ActionsContainer, subwords: str | None = None) -> None:
    """Declare what turns tokens into text, `subwords` by default; other verbs score such text."""
    usual = subwords or "sentencepiece, if the first line looks like it"
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        default=subwords,
        help=f"what to join to words (default: {usual})",
    )
    parser.add_argument(
        "--moses", metavar="LANGUAGE", help="undo Moses' tokenisation of this language, as de"
    )


def run(args: argparse.Namespace) -> int:
    """Rewrite each line."""
    check_output(args.output, args.file)
    named = {name: getattr(args, name) for name in ("moses", "drop", "field")}
    named["subwords"] = args.subwords or "sentencepiece"
    write(_plain(args), args.output, Signature("detokenise", {"input": str(args.file), **named}))
    return 0


def _plain(args: argparse.Namespace) -> Iterator[str]:
    plain = detokeniser(args.subwords, args.moses)
    lines = stream(args.file)
    for line in generated(lines, args.field) if args.field else lines:
        yield plain(" ".join(token for token in line.split() if token != args.drop))


def generated(lines: Iterable[str], field: str) -> Iterator[str]:
    """Return fairseq-generate's lines of one kind, the first of each number, by number."""
    found: dict[int, str] = {}
    for line in lines:
        numbered = re.match(rf"{field}-(\d+)\t", line)
        if numbered:
            found.setdefault(int(numbered[1]), line.split("\t", 2 if field == "H" else 1)[-1])
    if not found:
        raise DataError(
            f"There is no line that begins with {field}-0. Expected what fairseq-generate prints."
        )
    missing = next((n for n in range(len(found)) if n not in found), None)
    if missing is not None:
        raise DataError(
            f"There is no {field}-{missing}: the output of fairseq-generate is cut off."
        )
    return iter([found[number] for number in sorted(found)])
