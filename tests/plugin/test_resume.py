"""A killed and resumed training ends with the weights of an uninterrupted training."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import torch

from tests.conftest import PACKAGE, TINY, environment, train, weights

FLAGS = (
    *("--shape-max-shift", "50", "--shape-shift-warmup", "60"),
    *("--dropout", "0.2", "--max-update", "120"),
    *("--save-interval-updates", "7", "--keep-interval-updates", "2"),
)


def start_and_kill(data: Path, save_dir: Path, at_update: int) -> None:
    """Train until there is a checkpoint of `at_update` or later, then send SIGKILL."""
    words = ("fairseq-train", data, "--user-dir", PACKAGE, "--arch", "shape_transformer_tiny")
    process = subprocess.Popen(
        [*map(str, words), *TINY, "--save-dir", str(save_dir), *FLAGS],
        env=environment(REAL_COMMANDS="1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while updates(save_dir) < at_update:
        assert process.poll() is None, "the training ended before it could be killed"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def updates(save_dir: Path) -> int:
    names = [path.stem for path in save_dir.glob("checkpoint_[0-9]*.pt")]
    return max((int(name.rsplit("_", 1)[1]) for name in names), default=0)


def assert_same_weights(first: Path, second: Path) -> None:
    weights_of_second = weights(second / "checkpoint_last.pt")
    for name, weight in weights(first / "checkpoint_last.pt").items():
        assert torch.equal(weight, weights_of_second[name]), name


def test_run_killed_three_times_ends_with_the_same_weights(toy_data: Path, tmp_path: Path) -> None:
    train(toy_data, tmp_path / "uninterrupted", *FLAGS)
    for at_update in (7, 35, 70):
        start_and_kill(toy_data, tmp_path / "killed", at_update)
        killed_at = updates(tmp_path / "killed")
        assert at_update <= killed_at < 120
    shown = train(toy_data, tmp_path / "killed", *FLAGS)
    assert "Loaded checkpoint" in shown
    assert_same_weights(tmp_path / "uninterrupted", tmp_path / "killed")


def test_a_run_that_validates_with_bleu_resumes(toy_data: Path, tmp_path: Path) -> None:
    search = '{"beam": 1, "max_len_a": 0, "max_len_b": 6}'
    bleu = ("--eval-bleu", "--eval-bleu-args", search, "--dropout", "0.2", "--shape-max-shift", "5")
    train(toy_data, tmp_path / "whole", *bleu, "--max-update", "4")
    train(toy_data, tmp_path / "resumed", *bleu, "--max-update", "2")  # ends with a validation
    shown = train(toy_data, tmp_path / "resumed", *bleu, "--max-update", "4")
    assert "Loaded checkpoint" in shown
    assert_same_weights(tmp_path / "whole", tmp_path / "resumed")


def test_a_finished_run_that_is_started_again_changes_nothing(
    toy_data: Path, tmp_path: Path
) -> None:
    train(toy_data, tmp_path, "--max-update", "3", "--save-interval-updates", "2")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shown = train(toy_data, tmp_path, "--max-update", "3", "--save-interval-updates", "2")
    assert "nothing to train: 3 updates, and --max-update is 3" in shown
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    shown = train(toy_data, tmp_path, "--max-update", "4", "--restore-file", "checkpoint_last.pt")
    assert "num_updates: 4 >= max_update: 4" in shown
    reset = ("--max-update", "2", "--reset-optimizer", "--reset-dataloader", "--reset-meters")
    assert "num_updates: 2 >= max_update: 2" in train(toy_data, tmp_path, *reset)


def test_a_run_resumes_after_its_curriculum(toy_data: Path, tmp_path: Path) -> None:
    flags = ("--curriculum", "1", "--shape-max-shift", "5", "--max-tokens", "2000")
    train(toy_data, tmp_path / "whole", *flags, "--max-epoch", "3")
    for epochs in ("2", "3"):
        train(toy_data, tmp_path / "resumed", *flags, "--max-epoch", epochs)
    assert_same_weights(tmp_path / "whole", tmp_path / "resumed")
