"""Options of commands that let models work: on CPU or GPUs, in how many processes, batches.

Most spread the work over processes, one for each GPU (`add_device` and what follows it); those
that look into models work in one process, on one device that can be named (`add_one_device`).
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable

from fairseq_ssl.cli import work_options
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.executors import Executor, cpu_count

Gpus = Callable[[], int]
"""How many GPUs what does the work can use."""


def add_device(work: argparse._ActionsContainer) -> None:
    """Declare on what models compute, in how many processes, and how much at a time."""
    work.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: the GPUs where there are some (default: %(default)s)",
    )
    work_options.add_jobs(work, "one for each GPU, or core")
    work.add_argument(
        "--threads", type=int, default=1, metavar="N", help="of each process (default: 1)"
    )
    work.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="tokens of a batch, padding included (default: 2000 on a CPU, 16000 on a GPU)",
    )


def device(args: argparse.Namespace, gpus: Gpus) -> str:
    """Return what --device asks for, as torch calls it."""
    if args.device == "cpu":
        return "cpu"
    found = gpus() > 0
    if args.device == "cuda" and not found:
        raise UsageError("--device is cuda, but there is no CUDA device here.")
    return "cuda" if found else "cpu"


def batch_tokens(args: argparse.Namespace, gpus: Gpus) -> int:
    """Return how many tokens make a batch."""
    return args.max_tokens or (16_000 if device(args, gpus) == "cuda" else 2_000)


def engine(args: argparse.Namespace, gpus: Gpus) -> Executor:
    """Return the processes of this machine that do the work."""
    if device(args, gpus) == "cuda":
        return work_options.local_engine(args, gpus())
    return work_options.local_engine(args, max(1, cpu_count() // args.threads))


def add_one_device(parser: argparse._ActionsContainer) -> None:
    """Declare on what the one process computes."""
    parser.add_argument(
        "--device", help="cpu, cuda or cuda:1 (default: cuda where there is one, else cpu)"
    )


def one_device(asked: str | None) -> str:
    """Return this device, or the best there is; let fairseq be silent from now on."""
    import torch

    logging.disable(logging.INFO)  # fairseq and matplotlib tell about every step
    warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")
    chosen = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError):
        raise UsageError(f"--device {chosen} is not there; leave it out or pass cpu.") from None
    return str(chosen)
