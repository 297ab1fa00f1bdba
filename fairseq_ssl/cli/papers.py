"""``fairseq-ssl papers``: list the implemented papers and the names of their components."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from fairseq_ssl.papers import PAPERS, Paper, markdown_table

EXAMPLES = """\
  fairseq-ssl papers
  fairseq-ssl papers --format json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --format to the parser."""
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "json"),
        default="text",
        help="output format (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Print the papers and the names registered for each, in the selected format."""
    if args.format == "json":
        print(json.dumps([asdict(paper) for paper in PAPERS], indent=2))
    elif args.format == "markdown":
        print(markdown_table())
    else:
        print("\n\n".join(map(_text, PAPERS)))


def _text(paper: Paper) -> str:
    return "\n  ".join([paper.title, paper.brings, *paper.uses])
