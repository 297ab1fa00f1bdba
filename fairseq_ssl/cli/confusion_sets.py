"""``fairseq-ssl confusion-sets``: what each word of a text may be mistaken for."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.console import progress, watched
from fairseq_ssl.cli.options import (
    add_jobs,
    add_replace,
    check_jobs,
    check_new,
    check_output,
    local_executor,
    one_writer,
)
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.noise.confusion_sets import (
    Aspell,
    ConfusionFinder,
    SpellChecker,
    SymSpell,
    format_confusion_sets,
    known_words,
    word_slices,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import read_counts

SUMMARY = "ask a spell checker for the words that each word of a text may be mistaken for"
EXAMPLES = """\
  fairseq-ssl confusion-sets clean.en -o sets.tsv
  fairseq-ssl confusion-sets news.*.gz -o sets.tsv --least-count 5 --jobs 8
  fairseq-ssl confusion-sets --counts data-bin/dict.en.txt -o sets.tsv --checker aspell --lang en
  fairseq-ssl noise clean.en --method spell --confusion-sets sets.tsv -o noisy.en"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the vocabulary, the checker, and what to keep."""
    parser.add_argument(
        "texts",
        type=Path,
        nargs="*",
        metavar="TEXT",
        help="files whose words to take, tokens between spaces, .gz by suffix; words of two "
        "letters or more and without digits get a set",
    )
    parser.add_argument(
        "--counts",
        type=Path,
        metavar="FILE",
        help="the words with their counts, as in fairseq's dict.txt, instead of TEXT",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="where to write lines of a word, a tab, and others with spaces, .gz by suffix",
    )
    parser.add_argument(
        "--checker",
        choices=("symspell", "aspell"),
        default="symspell",
        help="symspell: words of TEXT at most two edits away, the nearest first, then the most "
        "frequent; aspell: what the program aspell suggests (default: %(default)s)",
    )
    parser.add_argument("--lang", help="aspell: the dictionary's language (default: en)")
    parser.add_argument(
        "--oov",
        action="store_true",
        help="aspell: keep suggestions that are no words of TEXT",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=20,
        metavar="N",
        help="others of a word, 1 or more (default: %(default)s)",
    )
    parser.add_argument(
        "--least-count",
        type=int,
        default=1,
        metavar="N",
        help="leave out words seen less often, which cost time and memory (symspell: about 2 kB a "
        "word in each process); 1 or more (default: %(default)s)",
    )
    add_jobs(parser)
    add_replace(parser)


@one_writer
def run(args: argparse.Namespace) -> int:
    """Count the words, look them up, and write the sets aside until all are there."""
    _check(args)
    words = known_words(_counts(args), args.least_count)
    work = word_slices(words)
    if not work:
        raise DataError(
            f"There is no word of two letters or more, seen {args.least_count} times or more, in "
            f"{', '.join(map(str, args.texts or [args.counts]))}."
        )
    checker = _checker(args, words)
    version = checker.version()
    among = None if args.oov else frozenset(words)
    totals = {"words": sum(map(len, work)), "sets": 0, "confusions": 0}
    tell = progress("confusion sets", "words", totals["words"])
    with atomic_lines(args.output) as file:
        found = local_executor(args).ordered(ConfusionFinder(checker, args.most, among), work)
        for piece, sets in zip(work, found, strict=True):
            file.writelines(format_confusion_sets(sets))
            totals["sets"] += len(sets)
            totals["confusions"] += sum(len(others) for _, others in sets)
            tell(len(piece))
    _publish(args, version, totals)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that do not fit, before anything is read."""
    if bool(args.texts) == bool(args.counts):
        raise UsageError("Name TEXT files to take words from, or a file with --counts.")
    check_jobs(args.jobs)
    for name in ("most", "least_count"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"{flag(name)} is {value}; expected 1 or more.")
    if args.checker == "symspell" and (args.lang or args.oov):
        raise UsageError(
            "--lang and --oov go with --checker aspell; symspell knows the words of TEXT alone."
        )
    check_output(args.output, *(args.texts or [args.counts]))
    check_new(args.output, args.overwrite)


def _counts(args: argparse.Namespace) -> Counter[str]:
    if args.counts:
        return read_counts(args.counts)
    counts: Counter[str] = Counter()
    for path in args.texts:
        for line in watched(read_lines(path), f"count words of {path.name}", "lines"):
            counts.update(line.split())
    return counts


def _checker(args: argparse.Namespace, words: Mapping[str, int]) -> SpellChecker:
    if args.checker == "symspell":
        return SymSpell(words)
    return Aspell(args.lang or "en")


def _publish(args: argparse.Namespace, version: str, totals: dict[str, int]) -> None:
    """Write the signature beside the sets, and say what was done."""
    known: dict[str, Any] = {"checker": version, "most": args.most, "least_count": args.least_count}
    inputs = [str(path) for path in args.texts or [args.counts]]
    signature = Signature("confusion-sets", {**known, "oov": args.oov, **totals, "inputs": inputs})
    signature.write_beside(args.output)
    print(
        f"{totals['words']} words, {totals['sets']} with {totals['confusions']} confusions",
        file=sys.stderr,
    )
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
