"""Shared by tests of fairseq's commands: configurations, training, decoding, comparison of runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

import fairseq_ssl
from tests.conftest import PACKAGE, ROOT, Run, weights

fairseq_ssl.register()
from fairseq import options, tasks  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

LAUNCHER = f'source "{ROOT}/examples/common/launch.sh"; launch_train "$@"'
Hypotheses = dict[int, tuple[float, str]]


def parsed(*words: str | Path) -> Any:
    """Return the configuration of fairseq-train with these arguments."""
    given = [str(word) for word in words]
    args = options.parse_args_and_arch(options.get_training_parser(), given)
    return convert_namespace_to_omegaconf(args)


def task_of(*words: str | Path) -> Any:
    """Return the task that fairseq-train sets up with these arguments."""
    return tasks.setup_task(parsed(*words).task)


def train_in_two_processes(run: Run, *words: str | Path) -> None:
    """Run fairseq-train with two processes, with the launcher of the recipes."""
    launched = ("bash", "-euo", "pipefail", "-c", LAUNCHER, "launch", *words)
    done = run(*launched, LAUNCH="cpu", PROCESSES="2")
    assert "distributed_world_size': 2" in done.stdout + done.stderr


def equal(one: Path, other: Path) -> bool:
    """Return True if two checkpoints have the same weights."""
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(
        torch.equal(weight, second[name]) for name, weight in first.items()
    )


def generated(run: Run, data: str | Path, path: str | Path, *flags: str | Path) -> Hypotheses:
    """Return score and text of the best hypothesis of fairseq-generate by sentence."""
    words = ("fairseq-generate", data, "--user-dir", PACKAGE, "--path", path, "--cpu")
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", run(*words, *flags).stdout, re.M)
    assert found
    return {int(number): (float(score), text) for number, score, text in found}


def close(one: Hypotheses, other: Hypotheses) -> bool:
    """Return True if all texts are equal, and all scores up to rounding."""
    return one.keys() == other.keys() and all(
        text == other[number][1] and abs(score - other[number][0]) < 1e-4
        for number, (score, text) in one.items()
    )
