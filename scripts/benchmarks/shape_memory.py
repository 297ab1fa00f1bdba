"""Peak memory of training of the stock Transformer relative to SHAPE of the same size.

Each model trains in a separate process, which reports its memory increase since before the model
was built. The goal for relative positions is at most 1.3 times the memory of absolute positions, a
ratio of 0.77.
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
    """Train for a few steps and return the memory increase in bytes."""
    if args.threads:
        torch.set_num_threads(args.threads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    models.trainer(arch, args, **options)()
    if args.device == "cuda":
        return float(torch.cuda.max_memory_allocated())
    return 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def measure(arch: str, args: Any, **options: Any) -> float:
    """Return the peak memory of a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as process:
        return process.submit(peak, arch, args, options).result()


def main() -> None:
    """Run the benchmark and print its report."""
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
