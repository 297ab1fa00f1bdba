"""Speed of fairseq's beam search on a CPU with the plug-in relative to the search without it.

Models and sentences are random. Outputs are as long as the inputs. Times are CPU times.
"""

from __future__ import annotations

import time

import harness
import models
from fairseq.sequence_generator import SequenceGenerator

SIZES: dict[str, dict[str, int]] = {
    "base": {},
    "small": {
        **dict.fromkeys(("encoder_layers", "decoder_layers"), 3),
        **dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim"), 256),
        **dict.fromkeys(("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"), 1024),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    },
}
"""Changes of fairseq's base Transformer."""


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--size", choices=SIZES, default="base")
    options.add_argument("--vocabulary", type=int, default=32_000)
    options.add_argument("--length", type=int, default=25, help="sentence length in words")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--sentences", type=int, default=32, help="sentences in a batch")
    args = harness.parse(options)
    ours, stock = (
        models.searcher("transformer", args, args.vocabulary, kind, **SIZES[args.size])
        for kind in (SequenceGenerator, models.StockGenerator)
    )
    comparison = harness.Comparison(
        *("cpu_search", "with the plug-in", "fairseq", "sentences/s", 1.5), vars(args)
    )
    harness.compare(comparison, ours, stock, args.pairs, clock=time.process_time)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
