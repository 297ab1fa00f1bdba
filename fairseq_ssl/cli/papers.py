"""``fairseq-ssl papers``: what is implemented of each work, and under which names."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from fairseq_ssl.papers import PAPERS, Paper, markdown_table

EXAMPLES = """\
  fairseq-ssl papers
  fairseq-ssl papers --format json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the output format."""
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "json"),
        default="text",
        help="how to print the list (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Print all papers in the format asked for."""
    if args.format == "json":
        print(json.dumps([asdict(paper) for paper in PAPERS], indent=2))
    elif args.format == "markdown":
        print(markdown_table())
    else:
        print("\n\n".join(map(_text, PAPERS)))


def _text(paper: Paper) -> str:
    return "\n  ".join([paper.title, paper.brings, *paper.uses])
