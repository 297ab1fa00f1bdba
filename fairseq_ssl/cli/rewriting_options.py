"""Options of commands that make text of tokens, to write it or to score it."""

from __future__ import annotations

import argparse

from fairseq_ssl.text.tokenization import SUBWORDS


def add_rewriting(parser: argparse._ActionsContainer, subwords: str | None = None) -> None:
    """Declare what turns tokens into text, `subwords` by default; other verbs score such text."""
    usual = subwords or "sentencepiece, if the first line looks like it"
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        default=subwords,
        help=f"what to join to words (default: {usual})",
    )
    parser.add_argument(
        "--moses", metavar="LANGUAGE", help="undo Moses' tokenisation of this language, as de"
    )
