"""Monolingual text improves a translation model, and SELU networks learn without norms.

The task is that of the slides: translate numbers in words, unseen in training, to digits.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.sequence_generator import SequenceGenerator

import fairseq_ssl
from tests.conftest import ROOT, Run
from tests.plugin import digit_pairs

fairseq_ssl.register()
sys.path.append(str(ROOT / "examples/bytenet"))
from misclassification import misclassified  # noqa: E402

EPOCHS = 40
LEARNING = ("--arch", "bytenet_digits", "--bytenet-sets", "1", "--reconstruction-mixed-lengths")


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    digit_pairs.write(run, folder, labeled=128, unlabeled=512, valid=1, test=300)
    return folder


class Adam:
    """An Adam optimizer with the interface that fairseq's tasks use."""

    def __init__(self, model: Any, clip: float = 0.0) -> None:
        self.adam = torch.optim.Adam(model.parameters(), lr=4e-3)
        self.model = model
        self.clip = clip

    def backward(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(loss)

    def step(self, size: float) -> None:
        for weight in self.model.parameters():
            if weight.grad is not None:
                weight.grad /= size
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.adam.step()
        self.adam.zero_grad()


def trained(folder: Path, *flags: str, clip: float = 0.0) -> tuple[Any, Any, list[float]]:
    """Train a model. Return the task, the model and the loss of each epoch."""
    words = [str(folder / "bin"), "--task", "reconstruction_translation", "-s", "words"]
    words += ["-t", "digits", "--criterion", "reconstruction_loss", *LEARNING, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    model = task.build_model(cfg.model)
    criterion = task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    optimizer = Adam(model, clip)
    losses, update = [], 0
    for epoch in range(1, EPOCHS + 1):
        batches = task.get_batch_iterator(task.datasets["train"], max_sentences=16, epoch=epoch)
        total = 0.0
        for sample in batches.next_epoch_itr(shuffle=True):
            loss, size, _ = task.train_step(sample, model, criterion, optimizer, update)
            optimizer.step(size)
            total, update = total + float(loss), update + 1
        losses.append(total)
    return task, model, losses


def wrong(task: Any, model: Any) -> float:
    """Return the share of wrong characters in the output of greedy search on the test set."""
    task.load_dataset("test")
    data, digits = task.datasets["test"], task.target_dictionary
    one_way = model.models["words-digits"]
    search = SequenceGenerator([one_way], digits, beam_size=1, max_len_b=8)
    sample = data.collater([data[i] for i in range(len(data))])
    found = search.generate([one_way], sample)
    shares = [
        misclassified(
            digits.string(hypotheses[0]["tokens"]).split(),
            digits.string(target[target.ne(digits.pad())]).split(),
        )
        for hypotheses, target in zip(found, sample["target"], strict=True)
    ]
    return sum(shares) / len(shares)


@pytest.mark.slow
def test_monolingual_text_reduces_the_error(folder: Path) -> None:
    """After 320 updates, 25 % of the characters are wrong instead of 35 %.

    Rounding in another order has also given 29.9 % instead of 30.5 %.
    """
    text = (f"--reconstruction-source-text={folder}/mono/train", "--reconstruction-weight", "0.2")
    semi_supervised = wrong(*trained(folder, *text)[:2])
    supervised = wrong(*trained(folder)[:2])
    assert semi_supervised < supervised


@pytest.mark.slow
def test_selu_learns_without_norms(folder: Path) -> None:
    flags = ("--arch", "bytenet_selu", "--bytenet-dim", "20", "--bytenet-residual-scale", "0")
    task, model, losses = trained(folder, *flags, clip=5.0)
    assert all(loss < losses[0] for loss in losses[1:])
    assert losses[-1] < losses[0] / 4
    assert wrong(task, model) < 0.6
