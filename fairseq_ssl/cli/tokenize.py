"""``fairseq-ssl tokenize``: tokenize and truecase text as Moses does, and train a truecaser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, watched
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import parallel_map
from fairseq_ssl.io.outputs import exclusive, write_signature
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import MosesRules, preprocessor, train_truecaser

EXAMPLES = """\
  fairseq-ssl tokenize --moses de < train.de > train.tok.de
  fairseq-ssl tokenize train.en.gz --moses en --normalize --jobs 8 -o train.tok.en.gz
  fairseq-ssl tokenize train.en --moses en --train-truecase case.en
  fairseq-ssl tokenize train.en --moses en --truecase case.en -o train.true.en
  cat train.tok.de news.tok.de | fairseq-ssl tokenize --train-truecase case.de
  fairseq-ssl tokenize train.tok.de --truecase case.de -o train.true.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tokenize`` to the parser."""
    options.add_input(parser, "text; tokenized text without --moses", "file")
    add_options(parser, MosesRules)
    truecasing = parser.add_argument_group("truecasing").add_mutually_exclusive_group()
    options.add_path(
        truecasing,
        "--truecase",
        "write the first word of each sentence, and words in an unseen case, in their most "
        "frequent case; MODEL is an output of --train-truecase or of Moses",
        "MODEL",
    )
    options.add_path(
        truecasing,
        "--train-truecase",
        "count the case of words that do not start a sentence, and write the counts to MODEL, "
        "in the format of Moses' truecaser; no text is written",
        "MODEL",
    )
    options.add_output_or_stdout(parser)
    options.add_line_jobs(parser)


def run(args: argparse.Namespace) -> None:
    """Write the tokenized and truecased input, line by line, or a truecasing model."""
    rules = MosesRules(**passed(args, MosesRules))
    if not (rules.moses or args.truecase or args.train_truecase):
        raise UsageError("Pass --moses, --truecase or --train-truecase.")
    if args.train_truecase and args.output:
        raise UsageError("--train-truecase writes a model and no text. Drop --output.")
    options.check_output(args.output or args.train_truecase, args.file, args.truecase)
    lines = options.input_lines(args.file)
    if rules.moses or args.truecase:
        lines = parallel_map(lines, args.jobs, preprocessor, rules, args.truecase)
    if args.train_truecase:
        with exclusive(args.train_truecase):
            _train(args, lines, rules.parameters())
        return
    parameters, files = rules.parameters(), {}
    if args.truecase:
        parameters["truecase_digest"] = content_digest(args.truecase)
        files["truecase"] = str(args.truecase)
    options.write_lines(lines, args.output, Signature("tokenize", parameters, files))


def _train(args: argparse.Namespace, lines: Iterator[str], rules: dict[str, object]) -> None:
    name = str(args.file or "stdin")
    model = args.train_truecase
    count, words = train_truecaser(watched(lines, "train-truecase", "lines"), model, name)
    signature = Signature("truecase", {**rules, "lines": count, "words": words}, {"input": name})
    write_signature(signature, model)
    print_lines(signature, f"wrote {words} words to {model}")
