"""Training speed of a SHAPE Transformer relative to a stock one of the same size, in tokens/s.

--positions relative compares relative with absolute positions. --length 256 is the length of ten
concatenated sentences.
"""

from __future__ import annotations

from typing import Any

import harness
import models

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART

GOALS = {"shifted": 0.99, "relative": 0.95}
LONG, LONG_GOAL = 200, 0.6
"""Minimum length for the second goal of relative positions, which is lower."""


def settings(description: str) -> Any:
    """Parse the options of this benchmark and of shape_memory."""
    options = harness.parser(description)
    options.add_argument("--arch", choices=STOCK_COUNTERPART, default="shape_transformer")
    options.add_argument("--positions", choices=GOALS, default="shifted")
    options.add_argument("--tokens", type=int, default=1024, help="tokens in a batch, on each side")
    options.add_argument("--length", type=int, default=32, help="sentence length in tokens")
    options.add_argument("--steps", type=int, default=3, help="training steps in a run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    return harness.parse(options)


def main() -> None:
    """Run the benchmark and print its report."""
    args = settings((__doc__ or "").splitlines()[0])
    stock = STOCK_COUNTERPART[args.arch]
    long = args.positions == "relative" and args.length >= LONG
    comparison = harness.Comparison(
        *("shape_training", f"{args.arch} {args.positions}", stock, "target tokens/s"),
        goal=LONG_GOAL if long else GOALS[args.positions],
        settings=vars(args),
    )
    ours = models.trainer(args.arch, args, shape_positions=args.positions)
    harness.compare(comparison, ours, models.trainer(stock, args), args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
