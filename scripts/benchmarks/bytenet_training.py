"""Training speed of ByteNet relative to a Transformer or --against fconv, in target tokens/s."""

from __future__ import annotations

from typing import Any

import harness
import models

CHARACTERS = 200
FCONV = "[(512, 3)] * 6"
"""Layers of the encoder and the decoder of fconv, for about as many weights as bytenet."""


def learner(arch: str, args: Any) -> harness.Run:
    """Return a run of training steps of `arch`."""
    unfold = {"bytenet_unfold": "1,0"} if arch.startswith("bytenet") else {}
    longest = {"max_source_positions": 1024, "max_target_positions": 1024}  # required by fconv
    sizes = {"encoder_layers": FCONV, "decoder_layers": FCONV} if arch == "fconv" else {}
    return models.trainer(arch, args, CHARACTERS, **longest, **unfold, **sizes)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="bytenet")
    options.add_argument("--against", default="transformer_iwslt_de_en")
    options.add_argument("--length", type=int, default=100, help="sentence length in characters")
    options.add_argument("--tokens", type=int, default=800, help="tokens in a batch")
    options.add_argument("--steps", type=int, default=1, help="training steps in a run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    args = harness.parse(options)
    comparison = harness.Comparison(
        "bytenet_training", args.arch, args.against, "target tokens/s", 1.0, vars(args)
    )
    first, second = learner(args.arch, args), learner(args.against, args)
    harness.compare(comparison, first, second, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
