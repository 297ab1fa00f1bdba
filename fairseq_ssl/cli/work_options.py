"""Options of commands that work through large texts: which part of it, by whom, and anew or not."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli.ranges import check_range
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.executors import LocalExecutor, cpu_count
from fairseq_ssl.text.specs import parse_integer

MOST_JOBS = 1000
MOST_BLOCK = 2**20
"""KiB of a text that are one piece of work."""


def add_shard(work: argparse._ActionsContainer) -> None:
    """Declare which part of the input is worked on."""
    work.add_argument(
        "--shard",
        metavar="I/N",
        help="do the I-th of N parts of INPUT, from 1, and write OUTPUT.I-of-N; all of them, "
        "joined with cat in their order, are what one run writes",
    )


def add_jobs(work: argparse._ActionsContainer, default: str = "one for each core") -> None:
    """Declare how many processes there are."""
    work.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help=f"processes of this machine; the result is the same (default: {default}, here "
        f"{cpu_count()})",
    )


def add_address(work: argparse._ActionsContainer) -> None:
    """Declare where a Ray cluster is."""
    work.add_argument(
        "--address", help="of the Ray cluster (default: $RAY_ADDRESS, or one started here)"
    )


def add_force(work: argparse._ActionsContainer) -> None:
    """Declare what is done with what is there."""
    work.add_argument(
        "--force", action="store_true", help="write anew what is there, finished or not"
    )


def parsed_shard(given: str | None) -> tuple[int, int]:
    """Return what --shard asks for, as its number and how many there are."""
    if given is None:
        return 1, 1
    number, total = (parse_integer(word) for word in given.partition("/")[::2])
    if number is None or total is None or not 1 <= number <= total:
        raise UsageError(f"--shard is {given!r}; expected I/N with I from 1 to N, as in 3/8.")
    return number, total


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of processes that no machine has."""
    if jobs is not None:
        check_range("--jobs", jobs, 1, MOST_JOBS)


def check_block(kibibytes: int | None) -> None:
    """Refuse a --block that no text can be cut into."""
    if kibibytes is not None:
        check_range("--block", kibibytes, 1, MOST_BLOCK)


def local_engine(args: argparse.Namespace, default: int | None = None) -> LocalExecutor:
    """Return the processes that --jobs asks for."""
    check_jobs(args.jobs)
    if getattr(args, "address", None) is not None:
        raise UsageError("--address goes with --engine ray.")
    return LocalExecutor(args.jobs or default or cpu_count())


def check_no_jobs(args: argparse.Namespace) -> None:
    """Refuse --jobs beside a cluster."""
    if args.jobs is not None:
        raise UsageError("--jobs is for one machine; Ray uses all CPUs of its cluster.")
