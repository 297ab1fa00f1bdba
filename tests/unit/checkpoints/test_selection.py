"""Selection of the last and the best checkpoints of a run."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from fairseq_ssl.checkpoints.averaging import best_checkpoints, last_checkpoints
from fairseq_ssl.checkpoints.files import write_checkpoint
from fairseq_ssl.errors import DataError, UsageError


def checkpoint(folder: Path, name: str, updates: int, value: float | None, higher: bool) -> None:
    write_checkpoint(
        {
            "model": {},
            "cfg": {"checkpoint": {"maximize_best_checkpoint_metric": higher}},
            "extra_state": {"val_loss": value},
            "optimizer_history": [{"num_updates": updates}],
        },
        folder / name,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create files of ten epochs, of five updates, and with the other names of fairseq."""
    names = [f"checkpoint{i}.pt" for i in range(1, 11)]
    names += [f"checkpoint_3_{i}00.pt" for i in range(8, 13)]
    names += ["checkpoint_best.pt", "checkpoint_last.pt", "checkpoint9.pt.tmp", "notes.txt"]
    for name in names:
        (tmp_path / name).touch()
    return tmp_path


def test_last_by_epoch_sorts_numerically(folder: Path) -> None:
    names = [path.name for path in last_checkpoints(folder, 3, "epoch")]
    assert names == ["checkpoint8.pt", "checkpoint9.pt", "checkpoint10.pt"]


def test_last_by_update(folder: Path) -> None:
    names = [path.name for path in last_checkpoints(folder, 2, "update")]
    assert names == ["checkpoint_3_1100.pt", "checkpoint_3_1200.pt"]


def test_too_few_checkpoints_are_reported(folder: Path) -> None:
    with pytest.raises(DataError, match=r"has 5 checkpoints.*There are 10 by epoch: set `by`"):
        last_checkpoints(folder, 6, "update")
    with pytest.raises(DataError, match="is not a folder"):
        last_checkpoints(folder / "none", 1, "epoch")


@pytest.mark.parametrize(
    ("higher", "expected"),
    [
        (False, ["checkpoint2.pt", "checkpoint3.pt"]),
        (True, ["checkpoint_3_250.pt", "checkpoint1.pt"]),
    ],
)
def test_best_uses_the_stored_score_and_direction(
    tmp_path: Path, higher: bool, expected: list[str]
) -> None:
    for epoch, value in enumerate([9.0, 4.0, 3.0], start=1):
        checkpoint(tmp_path, f"checkpoint{epoch}.pt", epoch * 100, value, higher)
    checkpoint(tmp_path, "checkpoint_3_250.pt", 250, 5.0, higher)
    checkpoint(tmp_path, "checkpoint_3_260.pt", 260, None, higher)
    checkpoint(tmp_path, "checkpoint.best_loss_3.0000.pt", 300, 3.0, higher)  # a copy of epoch 3
    checkpoint(tmp_path, "checkpoint_best.pt", 300, 3.0, higher)
    assert [path.name for path in best_checkpoints(tmp_path, 2)] == expected
    with pytest.raises(DataError, match="has 4 checkpoints with a validation score"):
        best_checkpoints(tmp_path, 5)


def test_the_direction_of_a_checkpoint_with_args(tmp_path: Path) -> None:
    for update, score in ((1, 10.0), (2, 30.0), (3, 20.0)):
        state = {
            "args": Namespace(arch="a", maximize_best_checkpoint_metric=True),
            "cfg": None,
            "model": {},
            "optimizer_history": [{"num_updates": update}],
            "extra_state": {"val_loss": score},
        }
        torch.save(state, tmp_path / f"checkpoint{update}.pt")
    assert [path.name for path in best_checkpoints(tmp_path, 1)] == ["checkpoint2.pt"]


def test_scores_that_are_not_numbers_are_not_used(tmp_path: Path) -> None:
    for epoch, value in enumerate([3.0, float("nan"), 5.0], start=1):
        checkpoint(tmp_path, f"checkpoint{epoch}.pt", epoch, value, higher=False)
    names = [path.name for path in best_checkpoints(tmp_path, 2)]
    assert names == ["checkpoint3.pt", "checkpoint1.pt"]
    with pytest.raises(DataError, match="has 2 checkpoints with a validation score"):
        best_checkpoints(tmp_path, 3)


def test_invalid_requests_are_rejected(folder: Path) -> None:
    for count in (0, 1.5):
        with pytest.raises(UsageError, match=f"`count` is {count}. Expected"):
            last_checkpoints(folder, count, "epoch")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"`count` is {count}. Expected"):
            best_checkpoints(folder, count)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`by` is 'epochs'"):
        last_checkpoints(folder, 1, "epochs")
