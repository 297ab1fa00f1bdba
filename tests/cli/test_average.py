"""``fairseq-ssl average`` on a real run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from fairseq_ssl.checkpoints.files import read_checkpoint
from fairseq_ssl.cli.main import main
from tests.conftest import PACKAGE, Run, train


def test_average_loads_in_fairseq(run: Run, trained: Path, toy_data: Path, tmp_path: Path) -> None:
    mean = tmp_path / "deep/mean.pt"
    words = ("fairseq-ssl", "average", trained, "--last", "3", "--by", "update", "-o", mean)
    assert re.search(r"checkpoint_\d+_250\.pt$", run(*words).stderr, re.M)
    newest = sorted(trained.glob("checkpoint_*_[0-9]*.pt"), key=lambda p: int(p.stem.split("_")[2]))
    weights = [read_checkpoint(path)["model"] for path in newest[-3:]]
    for name, got in read_checkpoint(mean)["model"].items():
        expected = sum(w[name].double() for w in weights) / 3
        torch.testing.assert_close(got, torch.as_tensor(expected).float(), atol=1e-6, rtol=0)
    beside = json.loads((tmp_path / "deep/mean.pt.json").read_text())
    assert (beside["method"], beside["n"], beside["by"]) == ("average", 3, "update")
    shown = run(
        *("fairseq-generate", toy_data, "--user-dir", PACKAGE, "--cpu", "--path", mean),
        *("--gen-subset", "valid"),
    ).stdout
    assert shown.count("\nH-") > 100


def test_training_can_continue_from_the_average(
    trained: Path, toy_data: Path, tmp_path: Path
) -> None:
    mean = tmp_path / "mean.pt"
    assert main(["average", str(trained), "--best", "2", "-o", str(mean)]) == 0
    flags = ("--restore-file", str(mean), "--reset-optimizer", "--reset-dataloader")
    shown = train(toy_data, tmp_path / "on", *flags, "--max-update", "2")
    assert "Loaded checkpoint" in shown


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["{run}"], 2, "is a folder. Pass --last or --best"),
        (["{run}", "{run}", "--last", "2"], 2, "need one folder"),
        (["{run}", "--last", "0"], 2, "--last is 0. Expected 1 or more"),
        (["{run}", "--best", "2", "--by", "update"], 2, "needs --last"),
        (["{run}", "--last", "99"], 1, "Expected 99. There are 5 by update: set --by"),
        (["{run}/missing.pt"], 1, "missing.pt does not exist"),
    ],
)
def test_wrong_options_are_rejected(
    words: list[str],
    code: int,
    message: str,
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [word.format(run=trained) for word in words]
    assert main(["average", *filled, "-o", str(tmp_path / "mean.pt")]) == code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_is_not_replaced_by_the_average(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / name) for name in ("checkpoint1.pt", "checkpoint2.pt")]
    for path in paths:
        torch.save({"model": {"weight": torch.ones(2)}}, path)
    assert main(["average", *paths, "-o", paths[1]]) == 2
    assert "checkpoint2.pt is an input. Choose another output." in capsys.readouterr().err
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("name", ["checkpoint_best.pt", "checkpoint_last.pt", "checkpoint1.pt"])
def test_no_checkpoint_of_the_run_is_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """checkpoint_best.pt is a copy of a numbered checkpoint, which is averaged in its place."""
    for one in ("checkpoint1.pt", "checkpoint2.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        state = {"model": {"weight": torch.ones(2)}, "extra_state": {"val_loss": 1.0}}
        torch.save(state, tmp_path / one)
    assert main(["average", str(tmp_path), "--last", "1", "-o", str(tmp_path / name)]) == 2
    assert f"{name} is a checkpoint of the run" in capsys.readouterr().err
    assert main(["average", str(tmp_path), "--last", "1", "-o", str(tmp_path / "mean.pt")]) == 0
