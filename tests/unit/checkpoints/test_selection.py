"""Selection of the last and the best checkpoints of a run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fairseq_ssl.checkpoints import CheckpointSelection, write_checkpoint
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


def test_the_last_are_sorted_by_number(folder: Path) -> None:
    names = [path.name for path in CheckpointSelection(last=3, by="epoch").paths([folder])]
    assert names == ["checkpoint8.pt", "checkpoint9.pt", "checkpoint10.pt"]
    names = [path.name for path in CheckpointSelection(last=2, by="update").paths([folder])]
    assert names == ["checkpoint_3_1100.pt", "checkpoint_3_1200.pt"]


def test_invalid_requests_are_rejected(folder: Path) -> None:
    calls: dict[str, Callable[[], object]] = {
        "5 update checkpoints": lambda: CheckpointSelection(last=6, by="update").paths([folder]),
        "none": lambda: CheckpointSelection(last=1, by="epoch").paths([folder / "none"]),
        "`by` needs `last`": lambda: CheckpointSelection(by="epoch"),
        "is a folder": lambda: CheckpointSelection().paths([folder]),
    }
    for culprit, call in calls.items():
        with pytest.raises((DataError, UsageError), match=culprit):
            call()


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
    assert [path.name for path in CheckpointSelection(best=2).paths([tmp_path])] == expected


def test_the_direction_of_a_checkpoint_with_args(tmp_path: Path) -> None:
    for update, score in ((1, 10.0), (2, 30.0), (3, 20.0)):
        checkpoint(tmp_path, f"checkpoint{update}.pt", update, score, higher=False)
        state = torch.load(tmp_path / f"checkpoint{update}.pt", weights_only=False)
        args = Namespace(arch="a", maximize_best_checkpoint_metric=True)
        torch.save({**state, "cfg": None, "args": args}, tmp_path / f"checkpoint{update}.pt")
    assert [path.name for path in CheckpointSelection(best=1).paths([tmp_path])] == [
        "checkpoint2.pt"
    ]


def test_scores_that_are_not_numbers_are_not_used(tmp_path: Path) -> None:
    for epoch, value in enumerate([3.0, float("nan"), 5.0], start=1):
        checkpoint(tmp_path, f"checkpoint{epoch}.pt", epoch, value, higher=False)
    names = [path.name for path in CheckpointSelection(best=2).paths([tmp_path])]
    assert names == ["checkpoint3.pt", "checkpoint1.pt"]
    with pytest.raises(DataError, match="contains 2 checkpoints"):
        CheckpointSelection(best=3).paths([tmp_path])
