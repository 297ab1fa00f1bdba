"""Training with several processes on a CPU: shared shifts, spawned workers, the launcher."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.plugin.checkpoint_safety import _shorten_user_errors
from tests.conftest import PACKAGE, TINY, Run, weights
from tests.plugin.runs import LAUNCHER, equal, train_in_two_processes

SHIFTED = (
    *("--arch", "shape_transformer_tiny", "--shape-max-shift", "50", "--shape-shared-shift"),
    *("--shape-shift-warmup", "12", "--dropout", "0.2", "--no-epoch-checkpoints", "--max-update"),
)


@pytest.mark.slow
def test_shared_shifts_and_their_warm_up_resume_in_two_processes(
    run: Run, toy_data: Path, tmp_path: Path
) -> None:
    words = (toy_data, "--user-dir", PACKAGE, *TINY, *SHIFTED)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_in_two_processes(run, *words, "10", "--save-dir", whole)
    for updates in ("5", "10"):
        train_in_two_processes(run, *words, updates, "--save-dir", resumed)
    assert equal(whole / "checkpoint_last.pt", resumed / "checkpoint_last.pt")


SPAWN = """
import sys, tempfile, torch, fairseq, fairseq_ssl
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.utils import distributed_main
from fairseq_cli.train import main

if __name__ == "__main__":
    args = options.parse_args_and_arch(options.get_training_parser(), sys.argv[1:])
    config = convert_namespace_to_omegaconf(args)
    config.distributed_training.distributed_rank = None
    torch.multiprocessing.spawn(distributed_main, (main, config, {"start_rank": 0}), nprocs=2)
"""


@pytest.mark.slow
def test_spawned_workers_register_the_architecture(
    run: Run, toy_data: Path, tmp_path: Path
) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    distributed = (
        *("--distributed-world-size", "2", "--distributed-backend", "gloo"),
        *("--distributed-init-method", f"file://{tmp_path / 'meet'}", "--ddp-backend"),
    )
    words = (toy_data, "--user-dir", PACKAGE, *TINY, *SHIFTED, "2")
    more = ("legacy_ddp", "--save-dir", tmp_path / "run")
    run(sys.executable, script, *words, *distributed, *more)
    assert weights(tmp_path / "run/checkpoint_last.pt")


def fail(rank: int, error: Exception) -> None:
    raise error


@pytest.mark.parametrize("kind", [ConfigurationError, TypeError])
@pytest.mark.slow
def test_user_errors_of_spawned_processes_are_one_line(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProcessRaisedException) as raised:
        spawn(fail, (kind("--lr: 1 is wrong."),), nprocs=1)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(sys, "argv", ["/bin/fairseq-train"])
    _shorten_user_errors(sys.__excepthook__)(raised.type, raised.value, None)
    shown = capsys.readouterr().err
    is_short = shown == "fairseq-train: error: --lr: 1 is wrong.\n"
    assert is_short == (kind is ConfigurationError)
    assert "--lr: 1 is wrong." in shown


def test_documented_launch_commands(run: Run) -> None:
    nodes = {"NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "first"}
    begins = {
        "single": "fairseq-train data-bin --arch",
        "node": "fairseq-train data-bin --arch",
        "cpu": "torchrun --standalone --nproc-per-node 2",
        "torchrun": "torchrun --nnodes 2 --node-rank 1 --nproc-per-node gpu --master-addr first",
        "slurm": "srun --kill-on-bad-exit=1 --ntasks-per-node 1 fairseq-train data-bin --arch",
    }
    for way, begin in begins.items():
        words = ("bash", "-euc", LAUNCHER, "launch", "data-bin", "--arch", "a b")
        shown = run(*words, LAUNCH=way, DRY_RUN="1", **nodes).stdout
        assert shown.startswith(begin)
        assert r"a\ b" in shown, "arguments with spaces must not be split"
    shown = run("bash", "-euc", LAUNCHER, "launch", "bin", LAUNCH="gpus", code=2).stderr
    assert "Expected single, node, cpu, torchrun or slurm" in shown
