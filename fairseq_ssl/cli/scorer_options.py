"""Options of commands that let models score sentences: which model, how, and on what."""

from __future__ import annotations

import argparse

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.inference.loading import gpu_count
from fairseq_ssl.io.executors import Executor


def add_device(work: argparse._ActionsContainer) -> None:
    """Declare on what the models compute, and how much at a time."""
    options.add_device(work)
    work.add_argument(
        "--fp16", action="store_true", help="compute in half precision: on GPUs twice as fast"
    )


def batch_tokens(args: argparse.Namespace) -> int:
    """Return how many tokens make a batch."""
    return options.check_batch_tokens(args, gpu_count)


def device(args: argparse.Namespace) -> str:
    """Return what --device asks for, as torch calls it."""
    return options.chosen_device(args, gpu_count)


def engine(args: argparse.Namespace) -> Executor:
    """Return the processes that do the work."""
    return options.model_executor(args, gpu_count, fairseq_ssl.register)


def check_numbers(args: argparse.Namespace, *names: str) -> None:
    """Refuse those that are not above 0."""
    for name in ("threads", "max_tokens", *names):
        value = getattr(args, name)
        if value is not None and value <= 0:
            raise UsageError(f"{flag(name)} is {value}; expected above 0.")
