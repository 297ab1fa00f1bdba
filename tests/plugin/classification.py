"""Shared by tests of classifiers: a small data folder, and training in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import fairseq_ssl

fairseq_ssl.register()
from fairseq_cli import train as fairseq_train  # noqa: E402

from fairseq_ssl.cli.main import main  # noqa: E402
from tests.conftest import PACKAGE  # noqa: E402
from tests.plugin.runs import parsed  # noqa: E402

SIZES = ("--recurrent-embed-dim", "8", "--recurrent-hidden-dim", "6")
IMITATORS = ("--imitator-embed-dim", "8", "--imitator-channels", "6", "--imitator-windows", "1,2")
TRAINING = (
    *("--optimizer", "adam", "--lr", "0.01", "--batch-size", "8", "--cpu", "--seed", "1"),
    *("--no-epoch-checkpoints", "--log-format", "none", "--num-workers", "0"),
    "--disable-validation",
)
ALWAYS = (*TRAINING, "--distributed-world-size", "1")


def build(folder: Path) -> None:
    """Write the content of the fixture `classifiers`: lowercase data, and three models."""
    data = data_folder(folder, "--lower")
    teacher = expert(data, folder / "expert", epochs=8)
    students = imitators(data, folder / "imitators", teacher)
    mixture(data, folder / "mixture", teacher, "--mixture-imitators", students)


def data_folder(folder: Path, *flags: str) -> Path:
    """Return a data folder with texts whose label is one of their words."""
    kinds = ("good fine", "bad poor")
    lines = [
        f"{kind.split()[0]}\tthe film number {number % 7} is {kind.split()[number % 2]}\n"
        for number in range(12)
        for kind in kinds
    ]
    (folder / "train.tsv").write_text("".join(lines))
    (folder / "valid.tsv").write_text("".join(lines[:9]))
    texts = [f"this film {number} was {kind}\n" for number in range(15) for kind in kinds]
    (folder / "unlabelled.txt").write_text("".join(texts))
    words = ["classify", "prepare", folder / "train.tsv", "--valid", folder / "valid.tsv"]
    words += ["--unlabeled", folder / "unlabelled.txt", "--subword-vocab-size", "60"]
    words += ["-o", folder / "data", "--train-test-overlap", "keep", *flags]
    assert main([str(word) for word in words]) == 0
    return folder / "data"


def train(data: Path, save: Path, *flags: str | Path, stage: str = "supervised") -> Path:
    """Run fairseq-train in this process. Return the last checkpoint."""
    task = ("--user-dir", PACKAGE, "--task", "semi_supervised_classification")
    return run(save, data, *task, "--classification-stage", stage, *flags)


def run(save: Path, *words: str | Path) -> Path:
    """Run fairseq-train with these arguments and those that all tests share."""
    cfg = parsed(*ALWAYS, "--save-dir", save, *words)
    torch.manual_seed(1)
    fairseq_train.main(cfg)
    return save / "checkpoint_last.pt"


def expert(data: Path, save: Path, *flags: str | Path, epochs: int = 2) -> Path:
    """Train an expert. Return the checkpoint."""
    words = ("--arch", "lstm_classifier", *SIZES, "--criterion", "classification_cross_entropy")
    return train(data, save, *words, "--max-epoch", str(epochs), *flags)


def imitators(data: Path, save: Path, teacher: Path, *flags: str | Path) -> Path:
    """Train imitators of a teacher. Return the checkpoint."""
    words = ("--arch", "imitators", *IMITATORS, "--criterion", "imitation_cross_entropy")
    more = ("--imitator-teacher", teacher, "--max-epoch", "2")
    return train(data, save, *words, *more, *flags, stage="imitate")


def mixture(data: Path, save: Path, expert: Path, *flags: str | Path) -> Path:
    """Fine-tune an expert with imitators. Return the checkpoint."""
    words = ("--arch", "expert_and_imitators", "--mixture-expert", expert, "--max-epoch", "2")
    more = ("--criterion", "classification_cross_entropy", *flags)
    return train(data, save, *words, *more, stage="mixture")


def loaded(checkpoint: Path, data: Path, **files: Path) -> tuple[Any, Any]:
    """Return the model of a checkpoint, in evaluation mode, and its task.

    Options that name files are ignored. Pass them if they are needed.
    """
    from fairseq import checkpoint_utils

    overrides = {name: str(path) for name, path in {"data": data, **files}.items()}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides)
    return models[0].eval(), task
