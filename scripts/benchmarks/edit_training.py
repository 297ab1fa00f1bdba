"""Training of an edit tagger relative to another checkout of the package: tokens/s, peak memory.

--checkout is a folder such as a worktree of an earlier commit. Steps include the loss and Adam. The
weights and the sentences are random, and 10% of the labels are edits. The peak memory of both is
also in the settings of the report.
"""

from __future__ import annotations

import argparse
import inspect
import resource
import sys
from pathlib import Path
from typing import Any

import harness
import models
import torch
from torch import Tensor

from fairseq_ssl.criterions.edit_cross_entropy import EditCrossEntropy
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig

ROOT = Path(__file__).resolve().parents[2]
WORDS, GRAMS, TRANSFORMS = 28_996, 2480, 39
LABELS = 2 + 2 * GRAMS + TRANSFORMS
"""5,001 labels, as many as GECToR has."""


def tagger(args: argparse.Namespace) -> EditTagger:
    """Return an edit tagger with random weights."""
    words = models.words(WORDS)
    grams = [(f"w{number}",) for number in range(GRAMS)]
    tables = dict.fromkeys(("appends", "replaces", "grams"), grams)  # grams in earlier checkouts
    edits = argparse.Namespace(**tables, labels=range(LABELS))
    task = argparse.Namespace(source_dictionary=words.source_dictionary, edits=edits)
    sizes = {
        "encoder_layers": args.layers,
        "encoder_embed_dim": args.dim,
        "encoder_ffn_embed_dim": 4 * args.dim,
        "encoder_attention_heads": args.dim // 64,
    }
    torch.manual_seed(1)
    cfg = EditTaggerConfig(**sizes, edit_unfactorized=args.unfactorized)
    model: EditTagger = EditTagger.build_model(cfg, task).to(args.device)
    return model


def sentences(args: argparse.Namespace) -> Tensor:
    """Return sentences [batch, length] from <s> to </s>."""
    torch.manual_seed(1)
    ids = models.sentences(args.batch, args.length, WORDS)
    ids[:, 0] = 0
    return ids.to(args.device)


def serve(args: argparse.Namespace) -> None:
    """Do a training step for each line of the standard input, and print the peak memory in KiB."""
    model = tagger(args).train()
    options: dict[str, Any] = {
        "edit_copy_weight": 0.4,
        "edit_detection_weight": 1.0,  # in earlier checkouts
        "label_smoothing": 0.1,
        "sentence_avg": False,
    }
    known = inspect.signature(EditCrossEntropy).parameters
    criterion = EditCrossEntropy(
        argparse.Namespace(), **{name: options[name] for name in options if name in known}
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    ids = sentences(args)
    positions = ids[:, 1:].numel()
    labels = torch.randint(0, LABELS, (positions,), device=args.device)
    lengths = torch.full((len(ids),), args.length, device=args.device)
    sample = {
        "net_input": {"src_tokens": ids, "src_lengths": lengths},
        "labels": labels.where(torch.rand(positions, device=args.device) < 0.1, 0),
        "ntokens": positions,
        "nsentences": len(ids),
    }
    for _ in sys.stdin:
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            loss, _, _ = criterion(model, sample)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)


class Trainer:
    """Training in a process of its own, with the package of a checkout."""

    def __init__(self, args: argparse.Namespace, checkout: Path, bf16: bool) -> None:
        words = ["--serve", "--threads", str(torch.get_num_threads()), "--device", args.device]
        for name in ("layers", "dim", "length", "batch"):
            words += [f"--{name}", str(getattr(args, name))]
        flags = {"--unfactorized": args.unfactorized, "--bf16": bf16}
        words += [flag for flag, is_set in flags.items() if is_set]
        self.worker = harness.Worker(__file__, words, PYTHONPATH=str(checkout))
        self.tokens = int(args.batch * (args.length - 1))
        self.memory = 0

    def __call__(self) -> int:
        """Do a step. Return the number of tokens."""
        self.memory = int(self.worker.ask())
        return self.tokens


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--what", choices=("speed", "memory"), default="speed")
    options.add_argument("--checkout", type=Path, default=ROOT, help="folder of the other package")
    options.add_argument("--layers", type=int, default=6)
    options.add_argument("--dim", type=int, default=384, help="dimension, a multiple of 64")
    options.add_argument("--length", type=int, default=26, help="tokens of a sentence, with ends")
    options.add_argument("--batch", type=int, default=64, help="sentences in a batch")
    options.add_argument("--unfactorized", action="store_true")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast here")
    options.add_argument("--goal", type=float)
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = harness.parse(options)
    if args.serve:
        serve(args)
        return
    first, second = Trainer(args, ROOT, args.bf16), Trainer(args, args.checkout, False)
    unit = "tokens/s" if args.what == "speed" else "1 / GiB"
    shown: dict[str, object] = {name: str(value) for name, value in vars(args).items()}
    names = ("edit tagger", str(args.checkout))
    comparison = harness.Comparison("edit_training", *names, unit, args.goal, shown)
    harness.compare(comparison, first, second, args.pairs)
    memory = [trainer.memory / 2**20 for trainer in (first, second)]
    comparison.settings["peak GiB"] = memory
    if args.what == "memory":
        comparison.rates = [(1 / memory[0], 1 / memory[1])] * args.pairs
        comparison.ratios = [memory[1] / memory[0]] * args.pairs
    for trainer in (first, second):
        trainer.worker.stop()
    harness.publish(comparison)


if __name__ == "__main__":
    main()
