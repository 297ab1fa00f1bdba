"""Speed of ByteNet's decoder late in a sentence relative to its start, in steps/s.

Weights and words are random. All rows are reordered after each step, as in a beam search. The ratio
is 1 for a decoder in linear time. It is lower for a Transformer (--arch transformer), which attends
to all previous tokens.
"""

from __future__ import annotations

from typing import Any

import harness
import models
import torch

GOAL = 1 / 1.1
VOCABULARY = 200


class Writing:
    """The state of an incremental decoding."""

    def __init__(self, arch: str, args: Any) -> None:
        unfold = {"bytenet_unfold": "1,0"} if arch.startswith("bytenet") else {}
        self.model = models.build(arch, models.words(VOCABULARY), **unfold)[0]
        self.model.to(args.device).eval()
        tokens = models.sentences(2 * args.beam, args.length + args.steps + 1, VOCABULARY)
        source, self.written = tokens.to(args.device).chunk(2)
        self.order = torch.arange(args.beam, device=args.device).flip(0)
        lengths = torch.full((args.beam,), source.size(1), device=args.device)
        with torch.inference_mode():
            self.encoded = self.model.encoder(source, src_lengths=lengths)

    def write(self, begin: int, steps: int, state: dict[str, Any]) -> int:
        """Decode `steps` words after the first `begin` words."""
        decoder = self.model.decoder
        with torch.inference_mode():
            for step in range(begin, begin + steps):
                words = self.written[:, : step + 1]
                decoder(words, encoder_out=self.encoded, incremental_state=state)
                decoder.reorder_incremental_state_scripting(state, self.order)
        return steps

    def stretch(self, begin: int, steps: int) -> harness.Run:
        """Return a run of the steps after the first `begin` steps, which precede the run."""
        before: dict[str, Any] = {}
        self.write(0, begin, before)

        def run() -> int:
            state = {name: dict(kept) for name, kept in before.items()}
            return self.write(begin, steps, state)

        return run


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="bytenet")
    options.add_argument(
        "--length", type=int, default=750, help="steps before the late measurement"
    )
    options.add_argument("--steps", type=int, default=50, help="steps in a measurement")
    options.add_argument("--beam", type=int, default=5)
    args = harness.parse(options)
    names = f"{args.arch}, from step {args.length}", f"{args.arch}, from step 0"
    comparison = harness.Comparison("bytenet_decoding", *names, "steps/s", GOAL, vars(args))
    writing = Writing(args.arch, args)
    far, near = (writing.stretch(begin, args.steps) for begin in (args.length, 0))
    harness.compare(comparison, far, near, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
