"""``fairseq-ssl user-dir``: print the path of the plug-in, for --user-dir."""

from __future__ import annotations

import argparse
from pathlib import Path

import fairseq_ssl

EXAMPLES = """\
  fairseq-train data-bin --user-dir "$(fairseq-ssl user-dir)" --arch shape_transformer ..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Do nothing: the command has no options."""


def run(args: argparse.Namespace) -> None:
    """Print the absolute path of the package."""
    print(Path(fairseq_ssl.__file__).resolve().parent)
