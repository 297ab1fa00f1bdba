"""``fairseq-ssl spelling``: correct misspelled English words and missing capitals."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.io.jobs import check_new
from fairseq_ssl.text.spelling import correct_spelling_file, count_spelling_file

EXAMPLES = """\
  fairseq-ssl spelling count news.en train.trg -o counts.gz
  fairseq-ssl spelling correct essays.tok --counts counts.gz -o corrected.tok
  fairseq-ssl correct essays.txt --model run/checkpoint_best.pt --spelling counts.gz"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``spelling`` and their arguments to the parser."""
    add = Subcommands(parser).add
    count = add("count", "count the words and the pairs of adjacent words in correct text", _count)
    what = "tokenized English text without errors, preferably of millions of words"
    options.add_texts(count, "texts", what)
    options.add_output(count, f"file for the counts {options.FORMATS}")
    options.add_replace(count)
    correct = add(
        "correct", "correct misspelled words and missing capitals in tokenized text", _correct
    )
    options.add_input(correct, "tokenized text", "file")
    options.add_path(correct, "--counts", "output file of spelling count", required=True)
    options.add_line_job(correct, "corrected text, one line per input line")


def _count(args: argparse.Namespace) -> None:
    check_new(args.output, args.overwrite)
    counts, signature = count_spelling_file(args.texts, args.output, progress=progress)
    print_lines(
        f"{sum(counts.words.values())} words, {len(counts.words)} of them different, and "
        f"{len(counts.pairs)} pairs that occur at least twice",
        signature,
        f"wrote {args.output}",
    )


def _correct(args: argparse.Namespace) -> None:
    job = options.line_job(args)
    options.print_summary(correct_spelling_file(args.file, counts=args.counts, **job))
