"""Sentences a second: a pseudo-bidirectional Transformer over the stock one of the same depth.

Random weights, and as many tokens written as are read. With --training, target tokens a second of
both while they learn.
"""

from __future__ import annotations

import argparse
from typing import Any

import harness
import models
import torch
from fairseq.sequence_generator import SequenceGenerator

GOALS = {"decoding": 1 / 1.05, "training": 0.8}
WORDS = 30_000


def decoder(arch: str, args: Any, **options: Any) -> harness.Run:
    """Return a run of a beam search over sentences of --length words."""
    task = models.words(WORDS)
    model, _ = models.build(arch, task, **options)
    model = model.to(args.device).eval()
    generation = argparse.Namespace(
        beam=args.beam, print_alignment=None, replace_unk=None, no_beamable_mm=False
    )
    model.prepare_for_inference_(argparse.Namespace(generation=generation))
    length = {"max_len_a": 0, "max_len_b": args.length, "min_len": args.length}
    search = SequenceGenerator([model], task.target_dictionary, beam_size=args.beam, **length)
    torch.manual_seed(1)
    rows = models.sentences(args.sentences, args.length + 1, WORDS)
    batches = [batch.to(args.device) for batch in rows.split(args.batch)]  # type: ignore[no-untyped-call]

    def run() -> int:
        with torch.inference_mode():
            for batch in batches:
                lengths = torch.full((len(batch),), batch.size(1), device=args.device)
                search.generate([], {"net_input": {"src_tokens": batch, "src_lengths": lengths}})
        return len(rows)

    return run


def main() -> None:
    """Measure and publish."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="pseudo_bidirectional_transformer_big")
    options.add_argument("--against", default="transformer_vaswani_wmt_en_de_big")
    options.add_argument("--training", action="store_true")
    options.add_argument("--length", type=int, default=20, help="words in a sentence")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--sentences", type=int, default=4)
    options.add_argument("--batch", type=int, default=1, help="sentences decoded at a time")
    options.add_argument("--tokens", type=int, default=1024, help="trained on at a time")
    options.add_argument("--steps", type=int, default=2, help="of training in one run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    args = harness.parse(options)
    kind = "training" if args.training else "decoding"
    work = models.trainer if args.training else decoder
    unit = "target tokens/s" if args.training else "sentences/s"
    comparison = harness.Comparison(
        "pseudo_bidirectional", args.arch, args.against, unit, GOALS[kind], vars(args)
    )
    harness.compare(comparison, work(args.arch, args), work(args.against, args), args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
