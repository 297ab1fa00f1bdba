"""What copying costs: a pointer Transformer over the stock one of its size.

Random weights and sentences, some words of which are outside the vocabulary. --what training:
target tokens a second; memory: the peak of training, turned round, so that 1 is the same and less
is more memory; decoding: sentences a second, as many tokens written as are read.
"""

from __future__ import annotations

import harness
import models
import shape_memory

from fairseq_ssl.generation.copying_search import CopyingGenerator

GOALS = {"training": 0.85, "memory": 1 / 1.25, "decoding": 0.8}
UNITS = {"training": "target tokens/s", "memory": "bytes", "decoding": "sentences/s"}
SIZES = {"encoder_ffn_embed_dim": 4096}
"""What the stock Transformer needs to be of the paper's size."""


def main() -> None:
    """Measure and publish."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--what", choices=GOALS, default="training")
    options.add_argument("--arch", default="pointer_transformer")
    options.add_argument("--against", default="transformer")
    options.add_argument("--heads", type=int, default=1, help="of the copy attention")
    options.add_argument("--vocabulary", type=int, default=50_000)
    options.add_argument("--unknown", type=float, default=0.03, help="share of words not in it")
    options.add_argument("--length", type=int, default=30, help="words in a sentence")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--sentences", type=int, default=4, help="decoded at a time")
    options.add_argument("--tokens", type=int, default=1024, help="trained on at a time")
    options.add_argument("--steps", type=int, default=2, help="of training in one run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    args = harness.parse(options)
    ours = {"copy_attention_heads": args.heads}
    theirs = SIZES if args.against == "transformer" else {}
    comparison = harness.Comparison(
        *("pointer_transformer", args.arch, args.against, UNITS[args.what], GOALS[args.what]),
        vars(args),
    )
    if args.what == "memory":
        for _ in range(args.pairs):
            ours_peak = shape_memory.measure(args.arch, args, vocabulary=args.vocabulary, **ours)
            peak = shape_memory.measure(args.against, args, vocabulary=args.vocabulary, **theirs)
            comparison.rates.append((ours_peak, peak))
            comparison.ratios.append(peak / ours_peak)
    elif args.what == "training":
        first = models.trainer(args.arch, args, args.vocabulary, **ours)
        second = models.trainer(args.against, args, args.vocabulary, **theirs)
        harness.compare(comparison, first, second, args.pairs)
    else:
        size = args.vocabulary
        first = models.searcher(args.arch, args, size, CopyingGenerator, **ours)
        second = models.searcher(args.against, args, size, **theirs)
        harness.compare(comparison, first, second, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
