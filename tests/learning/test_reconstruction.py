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

    def __init__(self, model: Any) -> None:
        self.adam = torch.optim.Adam(model.parameters(), lr=4e-3)
        self.model = model

    def backward(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(loss)

    def step(self, size: float) -> None:
        for weight in self.model.parameters():
            if weight.grad is not None:
                weight.grad /= size
        self.adam.step()
        self.adam.zero_grad()


def trained(folder: Path, *flags: str) -> tuple[Any, Any]:
    """Train a model. Return the task and the model."""
    words = [str(folder / "bin"), "--task", "reconstruction_translation", "-s", "words"]
    words += ["-t", "digits", "--criterion", "reconstruction_loss", *LEARNING, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    model = task.build_model(cfg.model)
    criterion = task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    optimizer = Adam(model)
    update = 0
    for epoch in range(1, EPOCHS + 1):
        batches = task.get_batch_iterator(task.datasets["train"], max_sentences=16, epoch=epoch)
        for sample in batches.next_epoch_itr(shuffle=True):
            _, size, _ = task.train_step(sample, model, criterion, optimizer, update)
            optimizer.step(size)
            update += 1
    return task, model


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
    semi_supervised = wrong(*trained(folder, *text))
    supervised = wrong(*trained(folder))
    assert semi_supervised < supervised
