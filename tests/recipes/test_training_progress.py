"""Progress of training runs: the line, and when recipes print it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PACKAGE, ROOT, TINY, environment
from tests.recipes.recipe import script
from tests.recipes.stand_ins import stub_commands

PROGRESS = script(ROOT / "examples/common/training_progress.py")
NEW = "fairseq.trainer | No existing checkpoint found work/runs/a/checkpoint_last.pt"
BEGIN = "fairseq.trainer | begin training epoch"
SCORES = "valid | epoch 001 | valid on 'valid' subset"


def options(**changes: object) -> str:
    """The message of fairseq-train with all options."""
    given: dict[str, object] = {"max_epoch": 0, "max_update": 0, "save_dir": "work/runs/a"}
    given |= {"valid_subset": "valid,extra", "best_checkpoint_metric": "loss"}
    given |= {"maximize_best_checkpoint_metric": False, **changes}
    return f"fairseq_cli.train | { ({'_name': None, 'common': given}) }"


def updates(number: int, epoch: int, batch: int) -> str:
    return f"train_inner | epoch {epoch:03}:  {batch:5} / 100 loss=9.1, num_updates={number}, lr=1"


def described(messages: dict[str, str], now: str) -> str:
    """Return the line for messages by time of the day, without the name and the log."""
    lines = [f"2030-01-01 {time[:8]} | INFO | {message}" for time, message in messages.items()]
    run = PROGRESS.read_log(["/lib/torch.py: UserWarning", *lines, "a warning | INFO"])
    time = datetime.fromisoformat(f"2030-01-01 {now}")
    shown: str = PROGRESS.progress_line(run, Path("work"), Path("work/a.log"), time)
    assert shown.startswith("runs/a: ")
    assert shown.endswith(" (log: work/a.log)")
    return shown.removeprefix("runs/a: ").removesuffix(" (log: work/a.log)")


def test_update_score_and_remaining_time() -> None:
    log = {"12:00:00": options(max_update=40000), "12:00:30": NEW}
    assert described(log, now="12:00:40") == "loading data"
    log["12:01:00"] = f"{BEGIN} 1"
    assert described(log, now="12:01:00") == "epoch 1, update 0 of 40,000"
    log["12:06:00"] = updates(1000, 1, 60)
    expected = "epoch 1, update 1,000 of 40,000, {}ends in {}"
    assert described(log, now="12:06:00") == expected.format("", "3 h 15 min")
    assert described(log, now="12:08:00") == expected.format("", "3 h 13 min")
    log["12:09:00"] = f"{SCORES} | loss 4.5 | nll_loss 0.1 | best_loss 4.31"
    log["12:09:01"] = f"{SCORES} | loss 4.2 | nll_loss 0.1".replace("valid", "extra")
    assert described(log, now="12:10:00") == expected.format("best valid loss 4.31, ", "3 h 11 min")


def test_best_score_of_a_maximized_metric_before_the_first_checkpoint() -> None:
    flags = {"best_checkpoint_metric": "f05", "maximize_best_checkpoint_metric": True}
    log = {"12:00:00": options(**flags), "12:00:01": f"{BEGIN} 1"}
    for second, score in enumerate((7, 9, 8)):
        log[f"12:01:0{second}"] = f"{SCORES} | loss 1 | f05 {score}"
    assert described(log, now="12:02:00") == "epoch 1, update 0, best valid f05 9"


def test_end_of_a_training_run_with_a_number_of_epochs() -> None:
    log = {"12:00:00": options(max_epoch=20), "12:00:01": NEW, "12:00:02": f"{BEGIN} 1"}
    assert described(log, now="12:00:02") == "epoch 1 of 20, update 0"
    log["12:05:02"] = updates(50, 1, 50)
    expected = "epoch 1 of 20, update 50 of about 2,000, ends in 3 h 15 min"
    assert described(log, now="12:05:02") == expected
    log["12:10:02"] = "train | epoch 001 | loss 3.9 | num_updates 100 | lr 0.0004"
    expected = "epoch 1 of 20, update 100 of about 2,000, ends in 3 h 10 min"
    assert described(log, now="12:10:02") == expected
    log["12:00:00"] = options(max_epoch=20, max_update=200)
    expected = "epoch 1 of 20, update 100 of 200, ends in 10 min"
    assert described(log, now="12:10:02") == expected


def test_resumed_run_is_measured_from_its_resumption() -> None:
    log = {"01:00:00": options(max_update=2000), "01:00:01": NEW, "01:00:02": f"{BEGIN} 1"}
    log |= {"09:00:00": updates(1000, 10, 99), "09:00:01": f"{SCORES} | loss 2 | best_loss 2"}
    log["12:00:00"] = options(max_update=2000)
    loaded = "fairseq.trainer | Loaded checkpoint work/a.pt (epoch 10 @ 800 updates)"
    log |= {"12:00:01": loaded, "12:00:02": f"{BEGIN} 10"}
    expected = "epoch 10, update {} of 2,000, best valid loss 2"
    assert described(log, now="12:00:02") == expected.format(800)
    log["12:10:02"] = updates(1000, 10, 99)
    assert described(log, now="12:10:02") == expected.format("1,000") + ", ends in 50 min"
    log["12:00:01"] = NEW
    assert described(log, now="12:10:02") == "epoch 10, update 1,000 of 2,000, ends in 10 min"


@pytest.mark.parametrize(
    ("hours", "expected"), [(0.001, "1 min"), (0.999, "1 h 0 min"), (100, "4 d 4 h")]
)
def test_duration(hours: float, expected: str) -> None:
    assert PROGRESS.duration(PROGRESS.timedelta(hours=hours)) == expected


def test_line_of_an_earlier_process_is_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text(f"2030-01-01 12:00:00 | INFO | {options()}\n")
    for second in (1, 0):
        assert capsys.readouterr().out == ""
        PROGRESS.main(tmp_path / "log", Path("work"), datetime(2030, 1, 1, 12, 0, second))
    assert capsys.readouterr().out == f"runs/a: loading data (log: {tmp_path}/log)\n"


STUB = f"""
while (($#)); do [[ "$1" == --save-dir ]] && folder="$2"; shift; done
mkdir -p "$folder"
echo $$ >"$folder/process"
echo "$(date '+%F %T') | INFO | {options(max_update=9)}" | sed "s:work/runs/a:$folder:"
echo "$(date '+%F %T') | INFO | {BEGIN} 1"
"""
"""A fairseq-train that logs the begin of a training run."""
UNTIL_PRINTED = """
for tenth in {1..600}; do
  grep -q "^runs/${folder##*/}: " "$PRINTED" && exit "$CODE"
  sleep 0.1
done
"""


def start(folder: Path, words: str, **settings: str) -> subprocess.Popen[str]:
    """Start shell commands after sourcing the helpers."""
    common = ROOT / "examples/common"
    text = f'source "{common}/recipe.sh"; source "{common}/launch.sh"; {words}'
    with (folder / "printed").open("a") as printed:
        return subprocess.Popen(
            ["bash", "-c", text],
            env=environment(WORK=f"{folder}/work", PRINTED=f"{folder}/printed", **settings),
            stdout=subprocess.PIPE,
            stderr=printed if "CODE" in settings else subprocess.PIPE,
            text=True,
            # background processes of a script, and their children, ignore Ctrl-C
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def training(name: str) -> str:
    """The command that trains a model of this name."""
    return f'quietly "$WORK/{name}.log" launch_train data --save-dir "$WORK/runs/{name}"'


@pytest.mark.parametrize("code", ["0", "3"])
def test_progress_is_printed_while_a_model_is_trained(code: str, tmp_path: Path) -> None:
    commands = stub_commands(tmp_path / "bin", {"fairseq-train": STUB + UNTIL_PRINTED})
    settings = {**commands, "CODE": code, "PROGRESS_INTERVAL": "0.1"}
    step = start(tmp_path, f"{training('a')}; echo on", **settings)
    assert step.communicate()[0] == ("on\n" if code == "0" else "")
    assert step.returncode == (0 if code == "0" else 1)
    shown = (tmp_path / "printed").read_text().splitlines()
    assert shown[0] == f"runs/a: epoch 1, update 0 of 9 (log: {tmp_path}/work/a.log)"


def test_parallel_training_runs_print_lines_with_their_names(tmp_path: Path) -> None:
    commands = stub_commands(tmp_path / "bin", {"fairseq-train": STUB + UNTIL_PRINTED})
    settings = {**commands, "CODE": "0", "PROGRESS_INTERVAL": "0.1", "JOBS": "2"}
    step = start(tmp_path, f"spawn {training('a')}; spawn {training('b')}; settle", **settings)
    step.communicate()
    assert step.returncode == 0
    names = {line.split(":")[0] for line in (tmp_path / "printed").read_text().splitlines()}
    assert names == {"runs/a", "runs/b"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_progress_survives_a_killed_step(number: int, tmp_path: Path) -> None:
    """The output of the step would not end, as the process that prints would have it open."""
    commands = stub_commands(tmp_path / "bin", {"fairseq-train": STUB + "exec sleep 600"})
    step = start(tmp_path, training("a"), **commands, PROGRESS_INTERVAL="0.1")
    assert step.stderr is not None
    assert step.stderr.readline().startswith("runs/a: epoch 1")
    step.send_signal(number)
    if number != signal.SIGKILL:  # bash handles it when the command has ended
        os.kill(int((tmp_path / "work/runs/a/process").read_text()), number)
    step.communicate()
    assert step.returncode
    if number == signal.SIGKILL:
        os.kill(int((tmp_path / "work/runs/a/process").read_text()), number)


OTHER_NODE = {"LAUNCH": "torchrun", "NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "first"}


@pytest.mark.parametrize(
    "settings",
    [{}, {"PROGRESS_INTERVAL": "0"}, {"PROGRESS_INTERVAL": "0.1", **OTHER_NODE}],
    ids=["short", "none", "other node"],
)
def test_no_progress_of_short_runs_and_of_other_nodes(
    settings: dict[str, str], tmp_path: Path
) -> None:
    commands = dict.fromkeys(("fairseq-train", "torchrun"), f"{STUB}\nsleep 0.5")
    step = start(tmp_path, training("a"), **stub_commands(tmp_path / "bin", commands), **settings)
    assert step.communicate() == ("", "")
    assert step.returncode == 0
    assert (tmp_path / "work/runs/a").exists()


def test_log_of_fairseq_train_is_understood(toy_data: Path, tmp_path: Path) -> None:
    """Its format may change with its version."""
    flags = [*TINY, "--max-epoch", "1", "--log-interval", "5", "--best-checkpoint-metric", "ppl"]
    flags += ["--user-dir", str(PACKAGE), "--arch", "shape_transformer_tiny"]
    words = f"{training('a')} {shlex.join(flags)}".replace(" data ", f" {toy_data} ")
    assert start(tmp_path, words).communicate() == ("", "")
    log = (tmp_path / "work/a.log").read_text()
    run: Any = PROGRESS.read_log(log.splitlines())
    shown = PROGRESS.progress_line(run, tmp_path / "work", Path("a.log"), run.last)
    expected = f"epoch 1 of 1, update {run.updates} of about {run.updates}, best valid ppl "
    assert shown.startswith(f"runs/a: {expected}")
    assert run.start[1] == 0 < run.updates
    assert f" | ppl {run.best:g} | wps" in log
