"""``fairseq-ssl tag``: a tag before each source sentence, and in fairseq's dictionaries."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import UsageError
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import add_tag, add_tag_to_dictionary, check_tag, remove_tag

EXAMPLES = """\
  fairseq-ssl tag '<BT>' < back-translated.en > tagged.en
  fairseq-ssl tag '<FT>' forward.en.gz -o tagged.en.gz
  fairseq-ssl tag '<BT>' tagged.en --undo > plain.en
  fairseq-ssl tag '<BT>' --dictionary data-bin/dict.en.txt data-bin/dict.de.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the tag, the text and the dictionaries."""
    parser.add_argument(
        "tag",
        metavar="TAG",
        help="a word without spaces: <BT> for back-translated sources and <FT> for forward-"
        "translated ones (thesis, 5.3.3 and 5.5.2), or any that is not fairseq's own",
    )
    options.add_input(
        parser,
        "lines to tag, in subwords, or in words if the subword model knows the tag (fairseq-ssl "
        "subwords train --tags)",
        "file",
    )
    parser.add_argument(
        "--undo", action="store_true", help="take the tag away from the lines that begin with it"
    )
    parser.add_argument(
        "--dictionary",
        type=Path,
        nargs="+",
        default=[],
        metavar="DICT",
        help="dictionaries of fairseq's, to which the tag is added as the last line where they "
        "lack it: before training, and to both where source and target share embeddings; without "
        "FILE, only this is done and stdin is not read",
    )
    options.add_output_or_stdout(parser)


def run(args: argparse.Namespace) -> None:
    """Add the tag to the dictionaries, then to the lines."""
    check_tag(args.tag)
    only_dictionaries = bool(args.dictionary) and args.file is None
    if args.undo and args.dictionary:
        raise UsageError(
            "--undo is for lines. A tag stays in the dictionary: without it, symbols after it "
            "would have other ids than in data and models."
        )
    if only_dictionaries and args.output:
        raise UsageError("--output goes with FILE; - as FILE is stdin.")
    options.check_output(args.output, args.file, *args.dictionary)
    for path in args.dictionary:
        line = add_tag_to_dictionary(path, args.tag)
        found = f"has {args.tag} already" if line is None else f"has {args.tag} now, in line {line}"
        print_lines(f"{path} {found}")
    if not only_dictionaries:
        _rewrite(args)


def _rewrite(args: argparse.Namespace) -> None:
    """Tag the lines, or untag them, and say how many had the tag before."""
    had = 0

    def lines() -> Iterator[str]:
        nonlocal had
        for line in options.input_lines(args.file):
            plain = remove_tag(line, args.tag)
            had += plain != line
            yield plain if args.undo else add_tag(line, args.tag)

    count = options.write_lines(
        lines(), args.output, Signature("tag", {"tag": args.tag, "undo": args.undo})
    )
    if args.undo and had < count:
        print_lines(f"{count - had} of {count} lines did not begin with {args.tag}")
    if had and not args.undo:
        print_lines(f"{had} of {count} lines began with {args.tag} before")
