"""``fairseq-ssl tokenize``: tokenize and truecase text as in Moses, and train a truecaser."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, watched
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.outputs import exclusive, write_signature
from fairseq_ssl.io.text_jobs import rewritten_lines
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import MosesRules, preprocessor, tokenize_file, train_truecaser

EXAMPLES = """\
  fairseq-ssl tokenize --moses de < train.de > train.tok.de
  fairseq-ssl tokenize train.en.gz --moses en --normalize --jobs 8 -o train.tok.en.gz
  fairseq-ssl tokenize train.en --moses en --train-truecase case.en
  fairseq-ssl tokenize train.en --moses en --truecase case.en -o train.true.en
  cat train.tok.de news.tok.de | fairseq-ssl tokenize --train-truecase case.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tokenize`` to the parser."""
    options.add_input(parser, "text, already tokenized if --moses is not passed", "file")
    add_options(parser, MosesRules)
    truecasing = parser.add_argument_group("truecasing").add_mutually_exclusive_group()
    options.add_path(
        truecasing,
        "--truecase",
        "convert the first word of each sentence, and words in an unseen case, to their most "
        "frequent case; MODEL is the output of --train-truecase or of the Moses script",
        "MODEL",
    )
    options.add_path(
        truecasing,
        "--train-truecase",
        "count the case of words that do not start a sentence, and write the counts to MODEL in "
        "Moses truecaser format; no text is written",
        "MODEL",
    )
    options.add_line_job(parser, "tokenized and truecased text, one line per input line")


def run(args: argparse.Namespace) -> None:
    """Write the tokenized and truecased input, line by line, or a truecasing model."""
    rules = MosesRules(**passed(args, MosesRules))
    if not (rules.moses or args.truecase or args.train_truecase):
        raise UsageError("No step is selected. Pass --moses, --truecase or --train-truecase.")
    if not args.train_truecase:
        job = options.line_job(args)
        options.print_summary(tokenize_file(args.file, rules=rules, truecase=args.truecase, **job))
        return
    if args.output:
        raise UsageError("--train-truecase writes a model and no text. Remove --output.")
    options.check_output(args.train_truecase, args.file)
    with exclusive(args.train_truecase):
        _train(args, rules)


def _train(args: argparse.Namespace, rules: MosesRules) -> None:
    name = str(args.file or "stdin")
    model = args.train_truecase
    lines = rewritten_lines(args.file, preprocessor(rules), options.job_executor(args))
    count, words = train_truecaser(watched(lines, "train-truecase", "lines"), model, name)
    counts = {"lines": count, "words": words}
    signature = Signature("truecase", {**rules.parameters(), **counts}, {"input": name})
    write_signature(signature, model)
    print_lines(signature, f"wrote {words} words to {model}")
