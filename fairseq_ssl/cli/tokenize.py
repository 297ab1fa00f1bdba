"""``fairseq-ssl tokenize``: Moses tokenization, the inverse of ``detokenize --moses``."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.io.jobs import parallel_map
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import moses_tokenizer

EXAMPLES = """\
  fairseq-ssl tokenize --moses de < train.de > train.tok.de
  fairseq-ssl tokenize train.en.gz --moses en --normalize --jobs 8 -o train.tok.en.gz"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tokenize`` to the parser."""
    options.add_input(parser, "untokenized text", "file")
    parser.add_argument(
        "--moses",
        required=True,
        metavar="LANG",
        help="language of the Moses tokenizer, such as de; languages without a list of "
        "abbreviations use the English list",
    )
    parser.add_argument(
        "--aggressive-dash-splits",
        action="store_true",
        help="split at dashes within words: well-known becomes well @-@ known",
    )
    parser.add_argument(
        "--no-escape",
        action="store_true",
        help="do not escape & | < > ' \" [ ] as &amp; &#124; ...",
    )
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="normalize quotes, dashes and spaces with Moses' punctuation normalizer first",
    )
    options.add_output_or_stdout(parser)
    options.add_line_jobs(parser)


def run(args: argparse.Namespace) -> None:
    """Write the tokenized input, line by line."""
    options.check_output(args.output, args.file)
    rules = (args.moses, args.aggressive_dash_splits, not args.no_escape, args.normalize)
    signature = Signature(
        "tokenize",
        {
            "moses": args.moses,
            "dashes": args.aggressive_dash_splits,
            "escape": not args.no_escape,
            "normalize": args.normalize,
        },
    )
    options.write_lines(
        parallel_map(options.input_lines(args.file), args.jobs, moses_tokenizer, *rules),
        args.output,
        signature,
    )
