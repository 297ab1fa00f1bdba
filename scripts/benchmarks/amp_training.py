"""Training with --amp relative to float32, with fairseq's trainer, in target tokens/s of CPU time.

Both train `--arch` on the same random pairs, with --flags appended to the options of fairseq-train.
With --stock, the run in float32 uses fairseq without the plug-in. With --float32, both training
runs are in float32.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import shlex
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import fairseq_ssl

BATCHES = 4
PLUG_IN, STOCK = "plug-in", "stock"


def write_pairs(folder: Path, args: argparse.Namespace) -> None:
    """Write random pairs of `args.length` tokens in fairseq-preprocess format.

    The dictionary is not one of models.py, which would load the plug-in into the stock training.
    """
    torch.manual_seed(1)
    words = Dictionary()
    for number in range(args.vocabulary - len(words)):
        words.add_symbol(f"w{number}")
    for language in ("en", "de"):
        words.save(str(folder / f"dict.{language}.txt"))
        path = f"{folder}/train.en-de.{language}"
        builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{path}.bin", dtype=np.uint16)
        pairs = BATCHES * args.tokens // args.length
        sentences = torch.randint(words.nspecial, len(words), (pairs, args.length))
        sentences[:, -1] = words.eos()
        for sentence in sentences:
            builder.add_item(sentence)
        builder.finalize(f"{path}.idx")


def serve(words: list[str]) -> None:
    """Do an update for each line of the standard input. Print its target tokens and CPU seconds."""
    logging.disable()
    if os.environ["SERVE"] == PLUG_IN:
        fairseq_ssl.register()
    config: Any = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), words)
    )
    task = tasks.setup_task(config.task)
    task.load_dataset("train")
    model, criterion = task.build_model(config.model), task.build_criterion(config.criterion)
    trainer = Trainer(config, task, model, criterion)
    batches = list(trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=False))
    for _, batch in zip(sys.stdin, itertools.cycle(batches), strict=False):
        begun = time.process_time()
        trainer.train_step([batch])
        print(batch["ntokens"], time.process_time() - begun, flush=True)


def start(folder: str, args: argparse.Namespace, kind: str, *more: str) -> harness.Worker:
    """Start a training in a process of its own, which waits for updates."""
    words = [folder, "--arch", args.arch, "--task", "translation"]
    words += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
    words += ["--optimizer", "adam", "--lr", "1e-4", "--max-tokens", str(args.tokens)]
    words += ["--disable-validation", "--no-save", "--seed", "1", "--num-workers", "0"]
    words += ["--cpu"] if args.device == "cpu" else []
    return harness.Worker(
        __file__,
        [*words, *shlex.split(args.flags), *more],
        SERVE=kind,
        OMP_NUM_THREADS=str(torch.get_num_threads()),
    )


def main() -> None:
    """Run the benchmark and print its report."""
    parser = harness.parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", default="transformer")
    parser.add_argument("--stock", action="store_true", help="train in float32 without the plug-in")
    parser.add_argument("--float32", action="store_true", help="train without --amp")
    parser.add_argument(
        "--flags", default="--share-all-embeddings", help="options of both training runs"
    )
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--length", type=int, default=32, help="sentence length in tokens")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens in a batch, on each side")
    parser.add_argument("--steps", type=int, default=2, help="updates in a run")
    args = harness.parse(parser)
    kind = "with the plug-in" if args.float32 else "--amp"
    comparison = harness.Comparison(
        *("amp_training", f"{args.arch} {kind}", f"{args.arch} in float32", "target tokens/s"),
        goal=1.0 if args.float32 else 1.8 if args.stock else 1.5,
        settings=vars(args),
    )
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder), args)
        workers = (
            start(folder, args, PLUG_IN, *([] if args.float32 else ["--amp"])),
            start(folder, args, STOCK if args.stock else PLUG_IN),
        )
        seconds = 0.0

        def update(worker: harness.Worker) -> int:
            nonlocal seconds
            answers = [worker.ask().split() for _ in range(args.steps)]
            seconds += sum(float(spent) for _, spent in answers)
            return sum(int(tokens) for tokens, _ in answers)

        first, second = (partial(update, worker) for worker in workers)
        harness.compare(comparison, first, second, args.pairs, clock=lambda: seconds)
        for worker in workers:
            worker.stop()
    harness.publish(comparison)


if __name__ == "__main__":
    if "SERVE" in os.environ:
        serve(sys.argv[1:])
    else:
        main()
