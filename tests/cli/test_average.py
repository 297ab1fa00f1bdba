"""``fairseq-ssl average`` on a real run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import refused
from tests.conftest import train


def test_training_can_continue_from_the_average(
    trained: Path, toy_data: Path, tmp_path: Path
) -> None:
    mean = tmp_path / "mean.pt"
    assert main(["average", str(trained), "--best", "2", "-o", str(mean)]) == 0
    flags = ("--restore-file", str(mean), "--reset-optimizer", "--reset-dataloader")
    shown = train(toy_data, tmp_path / "on", *flags, "--max-update", "2")
    assert "Loaded checkpoint" in shown


@pytest.mark.parametrize("name", ["checkpoint_best.pt", "checkpoint_last.pt", "checkpoint1.pt"])
def test_no_checkpoint_of_the_run_is_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """checkpoint_best.pt is a copy of a numbered checkpoint, which is averaged in its place."""
    paths = [tmp_path / f"checkpoint{one}.pt" for one in ("1", "2", "_best", "_last")]
    for path in paths:
        torch.save({"model": {"weight": torch.ones(2)}, "extra_state": {"val_loss": 1.0}}, path)
    for inputs in ((tmp_path, "--last", "1"), (*paths[:2], tmp_path / name)):
        assert name in refused(capsys, 2, "average", *inputs, "-o", tmp_path / name)
    assert main(["average", str(tmp_path), "--last", "1", "-o", str(tmp_path / "mean.pt")]) == 0
