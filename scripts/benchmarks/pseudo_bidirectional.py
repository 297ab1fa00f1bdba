"""Speed of a pseudo-bidirectional Transformer relative to a stock one of the same depth.

With --alignment, speed with --pseudo-future-alignment prefix relative to position. Weights are
random and outputs are as long as the inputs. The unit is sentences/s, or with --training target
tokens/s.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import harness
import models

GOALS = {"decoding": 1 / 1.05, "training": 0.8, "alignment": 0.95}
WORDS = 30_000


def decoder(arch: str, args: Any, **options: Any) -> harness.Run:
    """Return a run of a beam search with `arch`."""
    return models.searcher(arch, args, WORDS, **options)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="pseudo_bidirectional_transformer_big")
    options.add_argument("--against", default="transformer_vaswani_wmt_en_de_big")
    options.add_argument("--alignment", action="store_true")
    options.add_argument("--training", action="store_true")
    options.add_argument("--length", type=int, default=20, help="sentence length in words")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--sentences", type=int, default=4)
    options.add_argument("--batch", type=int, default=1, help="sentences in a decoded batch")
    options.add_argument("--tokens", type=int, default=1024, help="tokens in a training batch")
    options.add_argument("--steps", type=int, default=2, help="training steps in a run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    args = harness.parse(options)
    kind = "training" if args.training else "decoding"
    work = models.trainer if args.training else decoder
    unit = "target tokens/s" if args.training else "sentences/s"
    names, goal = (args.arch, args.against), GOALS[kind]
    runs = [partial(work, name, args) for name in names]
    if args.alignment:
        names, goal = ("prefix", "position"), GOALS["alignment"]
        runs = [partial(work, args.arch, args, pseudo_future_alignment=name) for name in names]
    comparison = harness.Comparison("pseudo_bidirectional", *names, unit, goal, vars(args))
    first, second = (run() for run in runs)
    harness.compare(comparison, first, second, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
