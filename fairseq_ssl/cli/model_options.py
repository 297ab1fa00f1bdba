"""Options of commands that read a model: where its dictionaries are, its languages, its numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_float32")
"""The types of CTranslate2's numbers."""


def add_data(parser: argparse._ActionsContainer) -> None:
    """Declare where the dictionaries are, and the languages of the model."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder with the model's dictionaries, dict.LANG.txt or dict.txt",
    )
    add_languages(parser)


def add_languages(options: argparse._ActionsContainer) -> None:
    """Declare the languages of a model, which many a checkpoint does not name."""
    what = "language of the model (default: that of the checkpoint, or of the data in the folder)"
    options.add_argument("-s", "--source-lang", metavar="LANG", help=f"source {what}")
    options.add_argument("-t", "--target-lang", metavar="LANG", help=f"target {what}")
