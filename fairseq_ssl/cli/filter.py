"""``fairseq-ssl filter``: drop bad lines from a monolingual or parallel corpus."""

from __future__ import annotations

import argparse
from typing import Any

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.options import STDIN
from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.block_filter import DroppedRow
from fairseq_ssl.filters.chain import describe_filters, parse_filters, read_filters
from fairseq_ssl.filters.filter_job import FilterSummary, filter_files
from fairseq_ssl.io.text_jobs import Output

EXAMPLES = """\
  fairseq-ssl filter raw.en raw.de --filter langid:source=en:target=de,clean -o good.en good.de
  fairseq-ssl filter raw.en.gz raw.ja.gz --filter encoding --filter langid:source=en:target=ja \\
      --filter max-length,duplicates -o good.en.gz good.ja.gz
  fairseq-ssl filter raw.en raw.de --config filters.yaml -o good.en good.de --jobs 8
  fairseq-ssl filter raw.en raw.de --filter clean,duplicates -o good.en/ good.de/ --executor ray
  zcat news.en.gz | fairseq-ssl filter --filter langid:source=en,duplicates > news.en
  fairseq-ssl learned-filter --help    (a filter trained on clean pairs)

filters.yaml, for example:
  filters:
    - langid: {source: en, target: de}
    - clean: {max: 100}
    - identical
    - my_package.my_filters:Question  # your own subclass of fairseq_ssl.filters.Filter"""

EXAMPLE_WIDTH = 100
"""Maximum length of an example in the table, in characters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``filter`` to the parser."""
    formats = options.FORMATS
    source = f"text, one sentence per line {formats}; - for stdin (default: stdin)"
    options.add_path(parser, "source", source, "SOURCE", nargs="?")
    options.add_path(parser, "target", "target text, aligned with SOURCE", "TARGET", nargs="?")
    options.add_job_output(parser, "kept lines, one output per side, needed with TARGET", nargs="+")
    _add_filters(parser)
    part_size = options.PARTS.format("64M, or 16M with duplicates:near")
    options.add_execution(parser.add_argument_group("parallelism"), part_size=part_size)
    options.add_overwrite(parser)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filters", f"names and options:\n{describe_filters()}")
    chosen = group.add_mutually_exclusive_group(required=True)
    chosen.add_argument(
        "--filter",
        action="append",
        metavar="NAME[:OPTION=VALUE...][,NAME...]",
        help="filters in the order of application; repeat the option for more filters; "
        "package.module:Class is a filter from your own code; the filter duplicates is always "
        "applied last, so that it compares only lines that pass all other filters",
    )
    options.add_path(chosen, "--config", "YAML file with a list of filters, as shown below")


def run(args: argparse.Namespace) -> None:
    """Filter the text and print the number of lines that each filter dropped."""
    filters = (
        read_filters(args.config)
        if args.config
        else [spec for words in args.filter for spec in parse_filters(words)]
    )
    paths = [path for path in (args.source, args.target) if path is not None]
    if args.target and STDIN in map(str, paths):
        raise UsageError("A side of a parallel corpus cannot be stdin. Pass two files.")
    summary = filter_files(
        [path for path in paths if str(path) != STDIN],
        _outputs(args),
        filters,
        executor=options.job_executor(args),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        wrote = (f"wrote {path}" for path in summary.outputs)
        print_lines(*_table(summary), summary.signature, *wrote)


def _outputs(args: argparse.Namespace) -> list[Output]:
    if args.output not in (None, [STDIN]):
        return [options.output_of(args, path) for path in args.output]
    args.output = None
    return [] if args.target else [options.job_output(args)]


def _table(summary: FilterSummary) -> list[str]:
    """Return a table as lines: a header, a row for each filter, and a row for the kept lines."""
    rows = summary.lines
    width = max(map(len, [*(row.filter for row in summary.dropped), "filter"]))
    digits = max(len(str(rows)), len("dropped"))
    lines = [f"{'filter':{width}}  {'dropped':>{digits}}   share  example"]
    for row in summary.dropped:
        example = _format_row(row.examples[0]) if row.examples else ""
        line = f"{row.filter:{width}}  {row.count:{digits}}  {row.count / rows:6.1%}  {example}"
        lines.append(line.rstrip())
    kept = f"{summary.kept:{digits}}  {summary.kept / rows:6.1%}"
    return [*lines, f"{'kept':{width}}  {kept}  of {rows}"]


def _format_row(row: DroppedRow) -> str:
    """Return the line number, score and text of a dropped row, truncated to `EXAMPLE_WIDTH`."""
    score = _format_score(row.score)
    text = f"{row.line}: {f'({score}) ' if score else ''}{' | '.join(row.text)}"
    return text if len(text) <= EXAMPLE_WIDTH else f"{text[: EXAMPLE_WIDTH - 1]}\u2026"


def _format_score(score: Any) -> str:
    if isinstance(score, dict):
        return ", ".join(f"{name} {_format_score(value)}" for name, value in score.items())
    if isinstance(score, (list, tuple)):
        return " ".join(_format_score(value) or "-" for value in score)
    return "" if score is True else str(score)
