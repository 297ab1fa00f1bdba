"""Where commands may write: not over what they read, nor over what is there unless told to."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterable
from pathlib import Path

from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.io.atomic import exclusive


def check_output(output: Path | None, *read: Path | None, option: str = "output") -> None:
    """Refuse to write where something is read from; stdout (None) is never read."""
    if output and output.resolve() in {path.resolve() for path in read if path}:
        raise UsageError(f"{output} is read from. Name another {flag(option)}.")


def add_replace(parser: argparse._ActionsContainer, what: str = "the output") -> None:
    """Declare --force, for what `check_new` refuses."""
    parser.add_argument("--force", action="store_true", help=f"replace {what} if it is there")


def check_new(output: Path, force: bool) -> None:
    """Refuse to replace what took long to make, unless --force says so."""
    if output.exists() and not force:
        raise UsageError(f"{output} exists. Pass --force to replace it, or name another.")


def one_writer(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Reject a run of a verb while another run writes the same --output."""

    @functools.wraps(run)
    def alone(args: argparse.Namespace) -> int:
        if args.output is None:
            return run(args)
        with exclusive(args.output):
            return run(args)

    return alone


def check_all_differ(source: Path | None, outputs: Iterable[Path]) -> None:
    """Refuse outputs that are one file, or INPUT itself."""
    paths = [path.resolve() for path in (source, *outputs) if path]
    if len(set(paths)) < len(paths):
        raise UsageError("INPUT and the outputs must be different files.")
