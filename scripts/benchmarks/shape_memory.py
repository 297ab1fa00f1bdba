"""Peak memory of training: the stock Transformer over a SHAPE transformer of the same size.

Each trains in a process of its own, which reports how far its memory rose above what it had
before it built a model. 1 is the same; the goal for relative positions is at most 1.3 times
that of absolute ones, which is a ratio of 0.77.
"""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import harness
import models
import shape_training
import torch

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART

GOAL = 0.77


def peak(arch: str, args: Any, options: dict[str, Any]) -> float:
    """Train a little and return the rise of memory, in bytes."""
    if args.threads:
        torch.set_num_threads(args.threads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    models.trainer(arch, args, **options)()
    if args.device == "cuda":
        return float(torch.cuda.max_memory_allocated())
    return 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def measure(arch: str, args: Any, **options: Any) -> float:
    """Return the peak of a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as process:
        return process.submit(peak, arch, args, options).result()


def main() -> None:
    """Measure and publish."""
    args = shape_training.settings((__doc__ or "").splitlines()[0])
    stock = STOCK_COUNTERPART[args.arch]
    comparison = harness.Comparison(
        *("shape_memory", stock, f"{args.arch} {args.positions}", "bytes"),
        goal=GOAL,
        settings=vars(args),
    )
    for _ in range(args.pairs):
        pair = measure(stock, args), measure(args.arch, args, shape_positions=args.positions)
        comparison.rates.append(pair)
        comparison.ratios.append(pair[0] / pair[1])
    harness.publish(comparison)


if __name__ == "__main__":
    main()
