"""``fairseq-ssl filter``: what is fit to train on, of a corpus of one or two sides."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.filter_job import FilterJob, Wanted
from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters import chain as kinds
from fairseq_ssl.filters.chain import read_filters

SUMMARY = "drop bad lines or pairs: other languages, lengths, duplicates, copies, bad encodings"
EXAMPLES = """\
  fairseq-ssl filter raw.en raw.de --filter langid:source=en:target=de,clean -o good.en good.de
  fairseq-ssl filter raw.en.gz raw.ja.gz --filter encoding --filter langid:source=en:target=ja \\
      --filter longest,duplicates --memory 4G -o good.en.gz good.ja.gz
  fairseq-ssl filter raw.en raw.de --config filters.yaml -o good.en good.de --jobs 8
  zcat news.en.gz | fairseq-ssl filter --filter langid:source=en,duplicates > news.en
  fairseq-ssl filter learned --help    (a filter that is learned from clean pairs)

filters.yaml, for example:
  filters:
    - langid: {source: en, target: de}
    - clean: {max: 100}
    - identical"""

MEMORY = "1G"
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare text in and out, the filters, and who does the work."""
    parser.add_argument(
        "source",
        type=Path,
        nargs="?",
        metavar="SOURCE",
        help="text, a sentence a line, .gz by suffix (default: stdin)",
    )
    parser.add_argument(
        "target", type=Path, nargs="?", metavar="TARGET", help="the same lines on the other side"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="where to write what stays, a file for each side, .gz by suffix (default, for one "
        "side: stdout); a run that was killed goes on when the same command is given again",
    )
    _add_filters(parser)
    options.add_jobs(parser)
    options.add_overwrite(parser)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "filters", f"kinds and their options:\n{kinds.describe_filters()}"
    )
    chosen = group.add_mutually_exclusive_group(required=True)
    chosen.add_argument(
        "--filter",
        action="append",
        metavar="KIND[:OPTION=VALUE...][,KIND...]",
        help="one filter, or several that see what those before have left; may be given again. "
        "The verdicts do not depend on the order, and duplicates always comes last: of equal rows "
        "it keeps the first that passes all else",
    )
    chosen.add_argument(
        "--config", type=Path, metavar="FILE", help="the same as a list in YAML; see below"
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        help="for duplicates: max size of the table of lines seen, as in 500M or 4G. It grows with "
        "the lines, and needs an eighth more while it grows; 10 bytes for each different line are "
        "enough. When it is full, later lines are compared only with the lines in it "
        f"(default: {MEMORY})",
    )
    group.add_argument(
        "--examples",
        type=int,
        default=3,
        metavar="N",
        help="dropped lines of each filter to show in OUTPUT.json, the first of them also at the "
        "end; 0 or more (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Filter the text, and say what was dropped."""
    wanted = _wanted(args)
    job = FilterJob.of(wanted, options.local_executor(args), afresh=args.overwrite)
    return job.run(sys.stdout.buffer)


def _wanted(args: argparse.Namespace) -> Wanted:
    if args.examples < 0:
        raise UsageError(f"--examples is {args.examples}; expected 0 or more.")
    inputs = tuple(path for path in (args.source, args.target) if path is not None)
    outputs = tuple(args.output or ())
    _check_paths(inputs, outputs)
    settings = (
        read_filters(args.config)
        if args.config
        else [setting for words in args.filter for setting in kinds.parse_filters(words)]
    )
    if args.memory is not None and all(setting.kind != "duplicates" for setting in settings):
        raise UsageError("--memory goes with the filter duplicates.")
    memory = _size(args.memory or MEMORY)
    chain = kinds.build_filters(settings, max(1, len(inputs)))
    return Wanted(inputs, outputs, chain, args.examples, memory)


def _check_paths(inputs: tuple[Path, ...], outputs: tuple[Path, ...]) -> None:
    sides = max(1, len(inputs))
    if len(outputs) != sides and (outputs or sides == 2):
        expected = "-o FILE" if sides == 1 else "-o FILE FILE"
        raise UsageError(
            f"There are {sides} inputs and {len(outputs)} outputs; expected {expected}."
            if sides == 2
            else f"There is one input, and {len(outputs)} outputs; expected {expected}."
        )
    resolved = [path.resolve() for path in outputs]
    if len({*resolved, *(path.resolve() for path in inputs)}) < len(
        {path.resolve() for path in inputs}
    ) + len(resolved):
        raise UsageError("The inputs and the outputs must be different files.")


def _size(words: str) -> int:
    """Read a number of bytes with its unit."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", words.upper())
    if found is None:
        raise UsageError(f"--memory is {words!r}; expected a size as in 500M or 4G.")
    return int(found[1]) << UNITS[found[2]]
