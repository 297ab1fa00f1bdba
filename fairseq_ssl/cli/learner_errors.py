"""``fairseq-ssl learner-errors``: what the writers of a corpus put in, leave out and confuse."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq_ssl.cli.console import watched
from fairseq_ssl.cli.options import one_writer
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import read_parallel
from fairseq_ssl.noise.learner_errors import (
    ERROR_KINDS,
    MAX_GRAM_TOKENS,
    LearnerErrorCounter,
    LearnerErrors,
)
from fairseq_ssl.signature import Signature

SUMMARY = "count in corrected text which words learners put in, leave out and confuse"
EXAMPLES = """\
  fairseq-ssl learner-errors train.src train.trg -o words.json
  fairseq-ssl learner-errors lang8.src.gz lang8.trg.gz -o words.json --least 10
  fairseq-ssl noise clean.en --method learner --learner-errors words.json -o noisy.en"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides and where to write."""
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="what was written, one sentence a line, tokens between spaces, .gz by suffix",
    )
    parser.add_argument(
        "target", type=Path, metavar="TARGET", help="the same lines as they were corrected"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="where to write the counts, a JSON file",
    )
    parser.add_argument(
        "--least",
        type=int,
        default=2,
        metavar="N",
        help="leave out words, and pairs of words, seen less often; the numbers of errors are of "
        "all; 1 or more (default: %(default)s)",
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Compare the two sides line by line, and write what was counted."""
    if args.least < 1:
        raise UsageError(f"--least is {args.least}; expected 1 or more.")
    if args.output.resolve() in (args.source.resolve(), args.target.resolve()):
        raise UsageError("SOURCE, TARGET and --output must be different files.")
    counting = LearnerErrorCounter()
    for written, corrected in watched(
        read_parallel([args.source, args.target]), "learner words", "pairs"
    ):
        counting.add(written, corrected)
    counted = counting.words()
    _check_errors(args, counting, counted)
    common = counted.common(args.least)
    if not common.deleted:
        raise DataError(
            f"No word that {args.target} lacks comes {args.least} times or more in "
            f"{args.source}, so there is none to put in. Are these the two sides of a corpus with "
            "corrections, what was written first? A lower --least keeps rarer words."
        )
    signature = Signature(
        "learner-errors",
        {
            "least": args.least,
            "pairs": sum(counted.errors),
            "source": str(args.source),
            "target": str(args.target),
        },
    )
    common.write(args.output, signature)
    _tell(counting, counted, common)
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _check_errors(
    args: argparse.Namespace, counting: LearnerErrorCounter, counted: LearnerErrors
) -> None:
    """Refuse a corpus without an error."""
    pairs = sum(counted.errors)
    if sum(counted.kinds.values()):
        return
    if pairs:
        raise DataError(
            f"{args.source} and {args.target} are the same in all of {pairs} pairs, so there is "
            "no error to count. Expected what was written, and the same lines as they were "
            "corrected."
        )
    if counting.blank + counting.long:
        raise DataError(
            f"No pair of {args.source} and {args.target} has words on both sides, at most "
            f"{MAX_GRAM_TOKENS} on each: {counting.blank} have a blank side, {counting.long} are "
            "longer."
        )
    raise DataError(f"{args.source} is empty. Expected a sentence or more.")


def _tell(counting: LearnerErrorCounter, counted: LearnerErrors, common: LearnerErrors) -> None:
    pairs = sum(counted.errors)
    number = sum(counted.kinds.values())
    shares = ", ".join(f"{kind} {counted.kinds[kind] / number:.0%}" for kind in ERROR_KINDS)
    passed = ""
    if counting.blank:
        passed += f", {counting.blank} with a blank side passed over"
    if counting.long:
        passed += f", {counting.long} with more than {MAX_GRAM_TOKENS} words passed over"
    print(
        f"{pairs} pairs, {number / pairs:.2f} errors each ({shares}){passed}; "
        f"{len(common.deleted)} words deleted, {len(common.missing)} missing, "
        f"{len(common.replaced)} replaced",
        file=sys.stderr,
    )
