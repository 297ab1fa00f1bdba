"""``fairseq-ssl truecase``: train a Moses truecaser, truecase text, and undo it."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, watched
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.jobs import parallel_map
from fairseq_ssl.signature import Signature, content_digest
from fairseq_ssl.text.tokenization import CaseCounts, detruecaser, truecaser

EXAMPLES = """\
  fairseq-ssl tokenize train.de --moses de -o train.tok.de
  fairseq-ssl truecase train train.tok.de news.tok.de.gz -o case.de
  fairseq-ssl truecase apply case.de train.tok.de -o train.true.de
  fairseq-ssl truecase undo < output.tok.de > output.cased.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``truecase`` and their arguments to the parser."""
    steps = Steps(parser)
    train = steps.add("train", "count the case of words that do not start a sentence", _train)
    train.add_argument(
        "text",
        type=Path,
        nargs="+",
        metavar="TEXT",
        help="text tokenized as in Moses; .gz by suffix; - for stdin",
    )
    options.add_output(train, "case counts, in the format of Moses' truecaser", "MODEL")
    apply = steps.add(
        "apply",
        "write the first word of each sentence, and words in an unseen case, in their most "
        "frequent case",
        _apply,
    )
    apply.add_argument(
        "model", type=Path, metavar="MODEL", help="output of train, or a model of Moses' truecaser"
    )
    options.add_input(apply, "text tokenized as in Moses", "file")
    options.add_output_or_stdout(apply)
    options.add_line_jobs(apply)
    undo = steps.add("undo", "capitalize the first word of each sentence", _undo)
    options.add_input(undo, "truecased text tokenized as in Moses", "file")
    options.add_output_or_stdout(undo)
    undo.set_defaults(jobs=1)


@options.one_writer
def _train(args: argparse.Namespace) -> None:
    options.check_output(args.output, *args.text)
    counts = CaseCounts()
    number = 0
    lines = chain.from_iterable(map(options.input_lines, args.text))
    for line in watched(lines, "truecase train", "lines"):
        counts.add(line)
        number += 1
    if not counts.counts:
        raise DataError(
            f"No line of {', '.join(map(str, args.text))} has two or more words. Expected "
            "tokenized text, one sentence per line."
        )
    words = counts.write(args.output)
    numbers = {"lines": number, "words": words}
    signature = Signature("truecase", numbers, {"text": list(map(str, args.text))})
    signature.write_beside(args.output)
    print_lines(signature, f"wrote {words} words to {args.output}")


def _apply(args: argparse.Namespace) -> None:
    options.check_output(args.output, args.file, args.model)
    lines = parallel_map(options.input_lines(args.file), args.jobs, truecaser, args.model)
    parameters = {"model_digest": content_digest(args.model)}
    signature = Signature("truecase-apply", parameters, {"model": str(args.model)})
    options.write_lines(lines, args.output, signature)


def _undo(args: argparse.Namespace) -> None:
    options.check_output(args.output, args.file)
    lines = parallel_map(options.input_lines(args.file), args.jobs, detruecaser)
    options.write_lines(lines, args.output, Signature("truecase-undo"))
