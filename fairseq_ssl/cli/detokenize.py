"""``fairseq-ssl detokenize``: convert tokens, or output of fairseq-generate, to text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from fairseq_ssl.cli import options
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.postprocessing import read_generated_lines
from fairseq_ssl.text.tokenization import drop_token, moses_detokenizer

EXAMPLES = """\
  fairseq-ssl detokenize < test.bpe.de > test.de
  fairseq-ssl detokenize generate.txt --field H --subwords subword-nmt --moses de > test.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``detokenize`` to the parser."""
    options.add_input(parser, "tokenized text, or output of fairseq-generate", "file")
    options.add_output_or_stdout(parser)
    options.add_rewriting(parser)
    parser.add_argument(
        "--drop", metavar="TOKEN", help="token to remove, such as the <sep> of joined sentences"
    )
    parser.add_argument(
        "--field",
        choices=("S", "T", "H"),
        help="read output of fairseq-generate: extract sources (S), targets (T) or best hypotheses "
        "(H), in the order of the data",
    )


def run(args: argparse.Namespace) -> None:
    """Write the detokenized input, line by line."""
    options.check_output(args.output, args.file)
    named = {name: getattr(args, name) for name in ("moses", "drop", "field")}
    named["subwords"] = args.subwords or "sentencepiece"
    signature = Signature("detokenize", named, {"input": str(args.file)})
    options.write_lines(_plain(args), args.output, signature)


def _plain(args: argparse.Namespace) -> Iterator[str]:
    plain = moses_detokenizer(args.subwords, args.moses)
    lines = options.input_lines(args.file)
    if args.field:
        lines = read_generated_lines(lines, args.field, str(args.file or "stdin"))
    for line in lines:
        yield plain(drop_token(line, args.drop))
