"""``fairseq-ssl tag``: prepend a tag to each source sentence, and add it to dictionaries."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import UsageError
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import add_tag_to_dictionary, check_tag, read_counts

EXAMPLES = """\
  fairseq-ssl tag '<BT>' < back-translated.en > tagged.en
  fairseq-ssl tag '<FT>' forward.en.gz -o tagged.en.gz
  fairseq-ssl tag '<BT>' --dictionary data-bin/dict.en.txt data-bin/dict.de.txt"""

MISSING = object()
"""Value of FILE if it is not passed. If ``-`` is passed for stdin, the value is None."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tag`` to the parser."""
    parser.add_argument(
        "tag",
        metavar="TAG",
        help="tag without spaces, such as <BT> for back-translated sources or <FT> for sources "
        "with forward-translated targets",
    )
    options.add_input(
        parser,
        "text in subwords, or in words if fairseq-ssl subwords train was run with --tags TAG",
        "file",
    )
    parser.set_defaults(file=MISSING)
    options.add_path(
        parser,
        "--dictionary",
        "fairseq dictionaries to which the tag is appended if missing, before training; pass both "
        "dictionaries if source and target share embeddings; with this option, stdin is read only "
        "if FILE is -",
        "DICT",
        nargs="+",
        default=[],
    )
    options.add_output_or_stdout(parser)


def run(args: argparse.Namespace) -> None:
    """Add the tag to the dictionaries, then to the lines."""
    check_tag(args.tag)
    only_dictionaries = bool(args.dictionary) and args.file is MISSING
    args.file = None if args.file is MISSING else args.file
    if only_dictionaries and args.output:
        raise UsageError("--output is set without the input FILE. Pass FILE, or - to read stdin.")
    options.check_output(args.output, args.file, *args.dictionary)
    for path in args.dictionary:  # all of them, before the first is changed
        read_counts(path)
    for path in args.dictionary:
        line = add_tag_to_dictionary(path, args.tag)
        state = f"already has {args.tag}" if line is None else f"has {args.tag} now, in line {line}"
        print_lines(f"{path} {state}")
    if not only_dictionaries:
        _rewrite(args)


def _rewrite(args: argparse.Namespace) -> None:
    """Add the tag to each line. Report the number of lines that already started with it."""
    tagged = 0

    def lines() -> Iterator[str]:
        nonlocal tagged
        for line in options.input_lines(args.file):
            tagged += line.partition(" ")[0] == args.tag
            yield f"{args.tag} {line}"

    count = options.write_lines(lines(), args.output, Signature("tag", {"tag": args.tag}))
    if tagged:
        print_lines(f"{tagged} of {count} lines already started with {args.tag}")
