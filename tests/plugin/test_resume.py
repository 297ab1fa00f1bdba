"""A killed and resumed training ends with the weights of an uninterrupted training."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from tests.conftest import PACKAGE, TINY, Run, environment, train
from tests.plugin.runs import equal

SAVED = ("--save-interval-updates", "7", "--keep-interval-updates", "2")
SHIFTED = (
    *("--arch", "shape_transformer_tiny", "--shape-max-shift", "50", "--shape-shift-warmup", "30"),
    *("--dropout", "0.2", "--max-update", "70", *SAVED),
)
DENOISING = (
    *("--task", "denoising_pretraining", "--arch", "transformer_tiny", "--dropout", "0.1"),
    *("--criterion", "denoising_cross_entropy", "--noise", "direct:keep=0.7:mask=0.1,shuffle"),
    *("-s", "digits", "-t", "words", "--max-update", "50", *SAVED),
)


def start_and_kill(save_dir: Path, at_update: int, *words: str | Path) -> None:
    """Train until there is a checkpoint of `at_update` or later, then send SIGKILL.

    The server of commands kills the training with its client, before it starts the next command.
    """
    process = subprocess.Popen(
        [str(word) for word in words],
        env=environment(),
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
    assert equal(first / "checkpoint_last.pt", second / "checkpoint_last.pt")


@pytest.mark.parametrize(
    ("flags", "workers", "kills"), [(SHIFTED, "0", (7, 21, 35)), (DENOISING, "2", (14,))]
)
@pytest.mark.slow
def test_killed_run_ends_with_the_weights_of_an_uninterrupted_one(
    flags: tuple[str, ...],
    workers: str,
    kills: tuple[int, ...],
    masked_data: Path,
    tmp_path: Path,
    run: Run,
) -> None:
    words: list[str | Path] = ["fairseq-train", masked_data, "--user-dir", PACKAGE, *TINY, *flags]
    run(*words, "--num-workers", "0", "--save-dir", tmp_path / "uninterrupted")
    killed = tmp_path / "killed"
    words += ["--num-workers", workers, "--save-dir", killed]
    for at_update in kills:
        start_and_kill(killed, at_update, *words)
        assert at_update <= updates(killed) < int(flags[flags.index("--max-update") + 1])
    done = run(*words)
    assert re.search(r"Loaded checkpoint .* \(epoch [2-9]", done.stdout + done.stderr)
    assert_same_weights(tmp_path / "uninterrupted", killed)


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


WORSE = (
    *("--maximize-best-checkpoint-metric", "--lr", "0.001", "--warmup-updates", "0"),
    *("--max-tokens", "4000", "--shape-max-shift", "5"),
)
"""Flags with which no validation is better than the first one, since the loss decreases."""


def test_patience_counts_across_restarts(toy_data: Path, tmp_path: Path) -> None:
    flags = (*WORSE, "--lr-scheduler", "fixed", "--patience", "2")
    train(toy_data, tmp_path, *flags, "--max-epoch", "2")
    shown = train(toy_data, tmp_path, *flags, "--max-epoch", "9")
    assert "early stop since valid performance hasn't improved for last 2 runs" in shown
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "checkpoint3.pt" in before
    assert "checkpoint4.pt" not in before
    shown = train(toy_data, tmp_path, *flags, "--max-epoch", "9")
    assert "nothing to train: no better result in 2 validations, and --patience is 2" in shown
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    shown = train(toy_data, tmp_path, *flags, "--max-epoch", "9", "--patience", "3")
    assert (tmp_path / "checkpoint4.pt").exists()
    assert not (tmp_path / "checkpoint5.pt").exists()


@pytest.mark.slow
def test_a_learning_rate_that_depends_on_validations_resumes(
    toy_data: Path, tmp_path: Path
) -> None:
    plateau = ("--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", "0.5")
    flags = (*WORSE, *plateau, "--lr-patience", "1")
    train(toy_data, tmp_path / "whole", *flags, "--max-epoch", "4")
    for epochs in ("2", "3", "4"):
        train(toy_data, tmp_path / "resumed", *flags, "--max-epoch", epochs)
    rates = [
        torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False)[
            "last_optimizer_state"
        ]["param_groups"][0]["lr"]
        for name in ("whole", "resumed")
    ]
    assert rates[0] == rates[1] == 0.001 / 2, "halved after two epochs that are not better"
    assert_same_weights(tmp_path / "whole", tmp_path / "resumed")


def test_a_run_resumes_after_its_curriculum(toy_data: Path, tmp_path: Path) -> None:
    flags = ("--curriculum", "1", "--shape-max-shift", "5", "--max-tokens", "2000")
    train(toy_data, tmp_path / "whole", *flags, "--max-epoch", "3")
    for epochs in ("2", "3"):
        train(toy_data, tmp_path / "resumed", *flags, "--max-epoch", epochs)
    assert_same_weights(tmp_path / "whole", tmp_path / "resumed")
