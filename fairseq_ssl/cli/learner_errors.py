"""``fairseq-ssl learner-errors``: count words that learners add, omit and confuse."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.noise.learner_errors import (
    ERROR_KINDS,
    MAX_GRAM_TOKENS,
    LearnerErrorsSummary,
    count_learner_errors_file,
)

EXAMPLES = """\
  fairseq-ssl learner-errors train.src train.trg -o words.json
  fairseq-ssl learner-errors lang8.src.gz lang8.trg.gz -o words.json --min-count 10
  fairseq-ssl noise clean.en --method learner --learner-errors words.json -o noisy.en"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``learner-errors`` to the parser."""
    options.add_files(
        parser,
        source="uncorrected text, one sentence per line, tokens separated by spaces",
        target="corrected text, aligned with SOURCE",
    )
    options.add_output(parser, "JSON file with the counts")
    options.add_integer(
        parser, "--min-count", "min count of a listed word or pair of confused words", 2
    )


def run(args: argparse.Namespace) -> None:
    """Count the errors and print a summary."""
    summary = count_learner_errors_file(
        args.source, args.target, args.output, min_count=args.min_count, progress=progress
    )
    print_lines(_counts(summary), summary.signature, f"wrote {args.output}")


def _counts(summary: LearnerErrorsSummary) -> str:
    errors = summary.errors
    pairs, total = sum(errors.errors), sum(errors.kinds.values())
    shares = ", ".join(f"{kind} {errors.kinds[kind] / total:.0%}" for kind in ERROR_KINDS)
    skipped = ""
    if summary.blank:
        skipped += f", {summary.blank} with a blank side skipped"
    if summary.long:
        skipped += f", {summary.long} with more than {MAX_GRAM_TOKENS} words skipped"
    return (
        f"{pairs} pairs, {total / pairs:.2f} errors each ({shares}){skipped}; "
        f"{len(errors.deleted)} words deleted, {len(errors.missing)} missing, "
        f"{len(errors.replaced)} replaced"
    )
