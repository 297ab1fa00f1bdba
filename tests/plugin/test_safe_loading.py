"""fairseq loads its own checkpoints with weights_only=True, and rejects others."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.files import read_checkpoint
from fairseq_ssl.checkpoints.stored_options import REMOVED, UNUSED
from fairseq_ssl.errors import DataError, UnsafeCheckpointError
from tests.conftest import Attack

fairseq_ssl.register()
from fairseq import checkpoint_utils  # noqa: E402


@pytest.fixture
def hostile(trained: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A hostile checkpoint, and the file that its attack would write."""
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    target = tmp_path / "attacked"
    state["extra_state"]["gift"] = Attack(target)
    path = tmp_path / "hostile.pt"
    torch.save(state, path)
    return path, target


def test_attack_works_without_protection(hostile: tuple[Path, Path]) -> None:
    path, target = hostile
    torch.load(path, weights_only=False)
    assert target.exists()


@pytest.mark.parametrize("load", [checkpoint_utils.load_checkpoint_to_cpu, read_checkpoint])
def test_hostile_checkpoint_is_rejected_and_not_run(hostile: tuple[Path, Path], load: Any) -> None:
    path, target = hostile
    with pytest.raises(UnsafeCheckpointError, match=r"hostile\.pt was rejected.*'posix\.system'"):
        load(path)
    assert not target.exists()


def test_numpy_scalars_in_a_checkpoint_are_harmless(trained: Path, tmp_path: Path) -> None:
    state = read_checkpoint(trained / "checkpoint_last.pt")
    values = [np.float64(1.5), np.float32(2.5), np.int64(3), np.bool_(True)]
    torch.save({**state, "extra_state": {"best": values, "train_iterator": {}}}, tmp_path / "a.pt")
    assert (
        checkpoint_utils.load_checkpoint_to_cpu(tmp_path / "a.pt")["extra_state"]["best"] == values
    )


def test_checkpoint_with_options_of_version_0_2(
    trained: Path, tmp_path: Path, toy_data: Path
) -> None:
    """They are dropped, also from the criterion, unless the model would be different."""
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    for section in ("model", "task", "criterion"):
        values = state["cfg"][section]
        values = vars(values) if isinstance(values, Namespace) else values
        values.update(REMOVED, **dict.fromkeys(UNUSED, "any"))
    path = tmp_path / "old.pt"
    torch.save(state, path)
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], {"data": str(toy_data)}
    )
    task.build_criterion(cfg.criterion)
    name = "decoder.layers.0.fc1.weight"
    assert torch.equal(model.state_dict()[name], state["model"][name])
    state["cfg"]["task"]["bytenet_residual_scale"] = 0.0
    torch.save(state, path)
    with pytest.raises(DataError, match=r"^.*old\.pt was trained with .*_scale=0\.0.* 0\.2 of.*$"):
        read_checkpoint(path)


def test_damaged_file_is_reported(trained: Path, tmp_path: Path) -> None:
    whole = (trained / "checkpoint_last.pt").read_bytes()
    for name, content in {"cut": whole[: len(whole) // 2], "empty": b"", "text": b"hello"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            read_checkpoint(tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        read_checkpoint(tmp_path / "missing")
    torch.save([1, 2], tmp_path / "list")
    with pytest.raises(DataError, match="contains no model"):
        read_checkpoint(tmp_path / "list")


def test_copy_is_atomic(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairseq.file_io import PathManager

    target = tmp_path / "checkpoint_last.pt"
    target.write_text("the old one")

    def half(source: str, destination: str) -> None:
        Path(destination).write_text("ha")
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfile", half)
    with pytest.raises(KeyboardInterrupt):
        PathManager.copy(str(trained / "checkpoint_best.pt"), str(target), overwrite=True)
    assert target.read_text() == "the old one"
    monkeypatch.undo()
    assert PathManager.copy(str(trained / "checkpoint_best.pt"), str(target), overwrite=True)
    assert target.read_bytes() == (trained / "checkpoint_best.pt").read_bytes()
