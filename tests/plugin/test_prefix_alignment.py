"""--pseudo-future-alignment prefix in fairseq's commands, for added and lost letters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from tests.conftest import Run, weights
from tests.learning.late_decisions import binarize
from tests.plugin.test_pseudo_bidirectional import TRAINING, close, generated

ALIGNED = (*TRAINING, "--pseudo-future-alignment", "prefix", "--max-update", "40")


def write(folder: Path, split: str, lines: int, seed: int) -> None:
    """Write random letters, and the same letters with one lost and one added letter."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(lines):
        target = draw.choices("abcdefghij", k=draw.randrange(4, 12))
        source = list(target)
        del source[draw.randrange(len(source))]
        source.insert(draw.randrange(len(source)), draw.choice("abcdefghij"))
        pairs.append((" ".join(source), " ".join(target)))
    for side, sentences in zip(("src", "trg"), zip(*pairs, strict=True), strict=True):
        (folder / f"{split}.{side}").write_text("\n".join(sentences) + "\n", "utf-8")


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"train": 300, "valid": 20, "test": 40}
    return binarize(run, tmp_path_factory.mktemp("letters"), sizes, write=write)


@pytest.fixture(scope="module")
def trained(run: Run, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training with a checkpoint after 20 of 40 updates."""
    folder = tmp_path_factory.mktemp("run")
    save = ("--save-interval-updates", "20", "--save-dir", folder)
    run("fairseq-train", data, *ALIGNED, *save, "--num-workers", "0")
    return folder


def test_resuming_with_workers_equals_uninterrupted_training(
    run: Run, data: Path, trained: Path, tmp_path: Path
) -> None:
    begun = next(trained.glob("checkpoint_*_20.pt"))
    again = ("--restore-file", begun, "--save-dir", tmp_path, "--num-workers", "2")
    run("fairseq-train", data, *ALIGNED, *again)
    uninterrupted = weights(trained / "checkpoint_last.pt")
    resumed = weights(tmp_path / "checkpoint_last.pt")
    assert all(torch.equal(weight, resumed[name]) for name, weight in uninterrupted.items())


def test_checkpoint_stores_the_alignment(
    run: Run, data: Path, trained: Path, tmp_path: Path
) -> None:
    """The same weights with the other alignment have other scores."""
    checkpoint = trained / "checkpoint_last.pt"
    state = torch.load(checkpoint, weights_only=False)
    assert str(state["cfg"]["model"]["pseudo_future_alignment"]) == "prefix"
    state["cfg"]["model"]["pseudo_future_alignment"] = "position"
    torch.save(state, tmp_path / "position.pt")
    aligned = generated(run, data, checkpoint, "--beam", "1")
    assert not close(generated(run, data, tmp_path / "position.pt", "--beam", "1"), aligned)


def test_decoding_does_not_depend_on_batches_and_drafts(
    run: Run, data: Path, trained: Path
) -> None:
    path = trained / "checkpoint_last.pt"
    batched = generated(run, data, path, "--beam", "3")
    assert close(generated(run, data, path, "--beam", "3", "--batch-size", "1"), batched)
    greedy = generated(run, data, path, "--beam", "1")
    assert not close(greedy, batched)
    aggressive = ("--task", "local_transduction", "--aggressive")
    assert close(generated(run, data, path, "--beam", "1", *aggressive), greedy)
