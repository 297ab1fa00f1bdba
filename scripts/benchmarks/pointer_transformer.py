"""Cost of copying: a pointer Transformer relative to a stock Transformer of the same size.

Weights and sentences are random, with some out-of-vocabulary words. --what training: target
tokens/s. --what memory: peak memory of training of the stock model divided by that of the pointer
model. --what decoding: sentences/s, with outputs as long as the inputs.
"""

from __future__ import annotations

import harness
import models
import shape_memory

from fairseq_ssl.generation.copying_search import CopyingGenerator

GOALS = {"training": 0.85, "memory": 1 / 1.25, "decoding": 0.8}
UNITS = {"training": "target tokens/s", "memory": "bytes", "decoding": "sentences/s"}
SIZES = {"encoder_ffn_embed_dim": 4096}
"""Options that give the stock Transformer the size of the paper's model."""
DROPOUT = {"attention_dropout": 0.0, "activation_dropout": 0.0}
"""The stock Transformer's values, so that both models have the same dropout layers."""


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--what", choices=GOALS, default="training")
    options.add_argument("--arch", default="pointer_transformer")
    options.add_argument("--against", default="transformer")
    options.add_argument("--heads", type=int, default=1, help="heads of the copy attention")
    options.add_argument("--vocabulary", type=int, default=50_000)
    options.add_argument(
        "--unknown", type=float, default=0.03, help="share of out-of-vocabulary words"
    )
    options.add_argument("--length", type=int, default=30, help="sentence length in words")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--sentences", type=int, default=4, help="sentences in a decoded batch")
    options.add_argument("--tokens", type=int, default=1024, help="tokens in a training batch")
    options.add_argument("--steps", type=int, default=2, help="training steps in a run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    args = harness.parse(options)
    ours = {"copy_attention_heads": args.heads, **DROPOUT}
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
