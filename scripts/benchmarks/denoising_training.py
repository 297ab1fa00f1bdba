"""Training speed of denoising_pretraining relative to translation of noisy text, in tokens/s.

Both train the same architecture with --num-workers 2 on the same sentences and the same number of
batches. A run is an epoch. denoising_pretraining adds its noise during training and uses
denoising_cross_entropy. translation reads noisy text from the disk and uses
label_smoothed_cross_entropy.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import harness
import models
import numpy as np
from fairseq import options, tasks
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from torch import Tensor

GOAL = 0.9
PRETRAINING = ("--task", "denoising_pretraining", "-s", "en", "-t", "None")
TRANSLATION = ("--task", "translation", "-s", "noisy", "-t", "en")


def write(path: Path, sentences: Iterable[Tensor]) -> None:
    """Write sentences in fairseq-preprocess format."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{path}.bin", dtype=np.uint16)
    for sentence in sentences:
        builder.add_item(sentence)
    builder.finalize(f"{path}.idx")


def corpus(folder: Path, args: Any) -> None:
    """Write random sentences, clean and noisy."""
    words = models.words(args.vocabulary).source_dictionary
    words.add_symbol("<mask>")
    for language in ("en", "noisy"):
        words.save(str(folder / f"dict.{language}.txt"))
    count = args.steps * args.sentences
    # With sentences of one length, translation would sort by noisy length and pad less than for
    # text.
    lengths = np.random.default_rng(1).gamma(4, args.length / 4, count).clip(1, 4 * args.length)
    full = models.sentences(count, 4 * args.length + 1, args.vocabulary)
    ends = lengths.astype(int) + 1
    clean = [sentence[-end:] for sentence, end in zip(full, ends.tolist(), strict=True)]
    write(folder / "train.en-None.en", clean)
    write(folder / "train.noisy-en.en", clean)
    task = tasks.setup_task(configuration(folder, args, PRETRAINING).task)
    task.load_dataset("train", combine=True)
    dataset = task.dataset("train")
    dataset.set_epoch(1)
    batches = (dataset.collater([dataset[number]]) for number in range(len(dataset)))
    write(
        folder / "train.noisy-en.noisy", (batch["net_input"]["src_tokens"][0] for batch in batches)
    )


def configuration(folder: Path, args: Any, task: tuple[str, ...]) -> Any:
    """Return the configuration that fairseq parses from a command line."""
    words = [str(folder), *task, "--label-smoothing", "0.1", "--criterion"]
    if task == PRETRAINING:
        words += ["denoising_cross_entropy", "--noise", args.noise]
    else:
        words += ["label_smoothed_cross_entropy"]
    words += ["--arch", args.arch, "--share-all-embeddings", "--optimizer", "adam"]
    words += ["--batch-size", str(args.sentences), "--num-workers", str(args.workers)]
    words += ["--disable-validation", "--no-save", "--seed", "1"]
    words += ["--cpu"] if args.device == "cpu" else []
    words += ["--bf16"] if args.bf16 else []
    parsed = options.parse_args_and_arch(options.get_training_parser(), words)
    return convert_namespace_to_omegaconf(parsed)


def trainer(folder: Path, args: Any, task_words: tuple[str, ...]) -> harness.Run:
    """Return a run that trains for an epoch and returns the number of target tokens."""
    config = configuration(folder, args, task_words)
    task = tasks.setup_task(config.task)
    model, criterion = task.build_model(config.model), task.build_criterion(config.criterion)
    training = Trainer(config, task, model, criterion)
    epochs = training.get_train_iterator(epoch=1)

    def train() -> int:
        tokens = 0
        for batch in epochs.next_epoch_itr():
            training.train_step([batch])
            tokens += batch["ntokens"]
        return tokens

    return train


def main() -> None:
    """Run the benchmark and print its report."""
    parser = harness.parser((__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--arch", default="transformer_iwslt_de_en", help="architecture of both models"
    )
    parser.add_argument(
        "--noise", default="shuffle", help="noise, the same as --noise of denoising_pretraining"
    )
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--sentences", type=int, default=64, help="sentences in a batch")
    parser.add_argument("--length", type=int, default=27, help="mean sentence length in tokens")
    parser.add_argument("--steps", type=int, default=10, help="training steps in a run")
    parser.add_argument(
        "--workers", type=int, default=2, help="data loading processes, --num-workers of fairseq"
    )
    parser.add_argument("--bf16", action="store_true", help="train in bfloat16")
    args = harness.parse(parser)
    logging.disable()
    comparison = harness.Comparison(
        *("denoising_training", f"denoising_pretraining {args.noise}", "translation"),
        unit="target tokens/s",
        goal=GOAL,
        settings=vars(args),
    )
    with tempfile.TemporaryDirectory() as folder:
        corpus(Path(folder), args)
        ours = trainer(Path(folder), args, PRETRAINING)
        harness.compare(comparison, ours, trainer(Path(folder), args, TRANSLATION), args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
