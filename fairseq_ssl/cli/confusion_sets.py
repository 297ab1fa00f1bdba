"""``fairseq-ssl confusion-sets``: list confusable words for each word of a text."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.noise.confusion_sets import build_confusion_sets_file

EXAMPLES = """\
  fairseq-ssl confusion-sets clean.en -o sets.tsv
  fairseq-ssl confusion-sets news.*.gz -o sets.tsv --min-count 5 --jobs 8
  fairseq-ssl confusion-sets clean.en -o sets.tsv --aspell en
  fairseq-ssl noise clean.en --method confusion --confusion-sets sets.tsv -o noisy.en"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``confusion-sets`` to the parser."""
    options.add_texts(parser, "texts", "tokenized text")
    options.add_output(
        parser,
        f"confusion sets {options.FORMATS}, one per line: word, tab, confusable words; words with "
        "digits or a single letter are omitted",
    )
    parser.add_argument(
        "--aspell",
        metavar="LANG",
        help="language of Aspell, such as en; a confusion set contains Aspell's suggestions that "
        "occur in TEXT (default: without Aspell, the words of TEXT within two edits, sorted by "
        "distance, then by frequency)",
    )
    options.add_integer(
        parser, "--min-count", "min count of a word in TEXT (rare words cost time and memory)", 1
    )
    options.add_jobs(parser)
    options.add_replace(parser)


def run(args: argparse.Namespace) -> None:
    """Write the confusion sets and print a summary."""
    signature = build_confusion_sets_file(
        args.texts,
        args.output,
        aspell=args.aspell,
        min_count=args.min_count,
        overwrite=args.overwrite,
        executor=options.local_executor(args),
        progress=progress,
    )
    numbers = "{words} words, {sets} with {confusions} confusions"
    print_lines(numbers.format(**signature.parameters), signature, f"wrote {args.output}")
