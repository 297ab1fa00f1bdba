"""Training tokens a second: a SHAPE transformer over the stock one of the same size."""

from __future__ import annotations

from typing import Any

import harness
import models
import torch

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART

VOCABULARY = 8000


def trainer(arch: str, args: Any) -> harness.Run:
    """Return a function that trains `args.steps` steps of Adam and counts target tokens."""
    model, _ = models.build(arch, models.words(VOCABULARY))
    model.to(args.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    count = args.tokens // args.length
    source = models.sentences(count, args.length, VOCABULARY).to(args.device)
    target = models.sentences(count, args.length, VOCABULARY).to(args.device)
    lengths = torch.full((count,), args.length, device=args.device)

    def train() -> int:
        for _ in range(args.steps):
            with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
                logits = model(source, lengths, target)[0]
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        return int(args.steps * target.numel())

    return train


def main() -> None:
    """Measure and publish."""
    options = harness.parser(__doc__ or "")
    options.add_argument("--arch", choices=STOCK_COUNTERPART, default="shape_transformer")
    options.add_argument("--tokens", type=int, default=1024, help="in a batch, on each side")
    options.add_argument("--length", type=int, default=32, help="of a sentence, in tokens")
    options.add_argument("--steps", type=int, default=3, help="of training in one run")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    args = harness.parse(options)
    stock = STOCK_COUNTERPART[args.arch]
    comparison = harness.Comparison(
        *("shape_training", args.arch, stock, "target tokens/s"), goal=0.99, settings=vars(args)
    )
    harness.compare(comparison, trainer(args.arch, args), trainer(stock, args), args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
