"""Helpers of all recipes: parallelism, wrong settings and folders."""

from __future__ import annotations

import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.recipes.recipe import printed, step

COMMON = ROOT / "examples/common"
SECOND = sorted(ROOT.glob("examples/*/2_*.sh"))


def shell(words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run shell commands after sourcing the helpers."""
    script = f'source "{COMMON}/recipe.sh"; source "{COMMON}/launch.sh"; {words}'
    return subprocess.run(
        ["env", "--default-signal=INT", "bash", "-c", script],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_job_has_a_gpu_if_there_are_enough() -> None:
    job = 'job() { sleep "$1"; echo "$1 $CUDA_VISIBLE_DEVICES"; }; '
    spawned = "spawn job 0.9; spawn job 0.3; spawn job 0.5; settle"
    done = shell(job + spawned, JOBS="2", CUDA_VISIBLE_DEVICES="5,7")
    assert sorted(done.stdout.splitlines()) == ["0.3 7", "0.5 7", "0.9 5"], done.stderr
    done = shell(job + spawned, JOBS="3", CUDA_VISIBLE_DEVICES="5,7")
    assert sorted(done.stdout.splitlines()) == ["0.3 7", "0.5 5", "0.9 5"], done.stderr


def test_other_nodes_need_no_files_of_the_first_node(tmp_path: Path) -> None:
    node = {"LAUNCH": "torchrun", "NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "first"}
    done = shell("made /nothing; echo continued", **node)
    assert (done.returncode, done.stdout) == (0, "continued\n"), done.stderr
    settings = {"WORK": str(tmp_path), "SYSTEMS": "joint-direct-toys-300", "FINAL": "none"}
    step(ROOT / "examples/gec_pseudo_data/1_prepare.sh", settings | node)
    step(ROOT / "examples/gec_pseudo_data/3_pseudo.sh", settings | node)
    assert not list(tmp_path.rglob("*.txt"))


def test_other_nodes_wait_for_files_of_which_they_count_lines(tmp_path: Path) -> None:
    """Otherwise they would train with other options than the first node."""
    node = {"LAUNCH": "torchrun", "NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "first"}
    text = shlex.quote(str(tmp_path / "text"))
    first = f"(sleep 0.5; echo line >{text}.tmp; mv {text}.tmp {text}) & "
    count = f"count() {{ await {text}; wc -l <{text}; }}; count; rm {text}; "
    done = shell(first + count + first + "in_dry_run count", **node)
    assert done.stdout.split() == ["1", "1"], done.stderr
    assert done.stderr.count(f"waiting for {tmp_path}/text of the first node") == 2
    assert shell(f"await {text}; echo on", DRY_RUN="1", **node).stdout == "on\n"
    assert shell(f"await {text}; echo on", **node | {"NODE_RANK": "0"}).stdout == "on\n"


@pytest.mark.parametrize("wait", ["", 'wait() { builtin wait "$@" || [[ "$1" == -n ]]; }; '])
def test_a_job_that_fails_ends_the_step(wait: str) -> None:
    """Also if `wait -n` misses its exit code, as it does for a job that has just ended."""
    done = shell(wait + "spawn sleep 5; spawn false; settle; echo on", JOBS="2")
    assert done.returncode
    assert done.stdout == ""


@pytest.mark.parametrize("end", ["spawn false", "kill -INT $$", "kill -TERM $$"])
def test_no_training_survives_the_step(end: str) -> None:
    """An interrupt of the terminal does not reach the process groups of the jobs."""
    job = 'train() { quietly /dev/stdout run sh -c "sleep 3; echo trained" | cat; true; }; '
    done = shell(f"{job} spawn train; spawn train; sleep 1; {end}; settle", JOBS="3")
    assert done.returncode
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "8 node 2"),
        ({"GPUS": "16"}, "16 node 1"),
        ({"GPUS": "1"}, "1 single 16"),
        ({"LAUNCH": "single"}, "1 single 16"),
        ({"LAUNCH": "cpu"}, "2 cpu 8"),
        ({"GPUS": "16", "LAUNCH": "slurm"}, "16 slurm 1"),
    ],
)
def test_gpus_divide_the_batch_of_the_paper(settings: dict[str, str], expected: str) -> None:
    done = shell("gpus 8; F=$(divided 16 GPUS); echo $GPUS $LAUNCH $F", **settings)
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"GPUS": "5"}, "Lower one of these"),
        ({"GPUS": "32"}, "Set SIZE=2."),
        ({"SIZE": "7"}, "Set SIZE=4."),
        ({"SIZE": "0"}, "Expected"),
        ({"GPUS": "all"}, "Expected"),
        ({"GPUS": "2", "LAUNCH": "single"}, "LAUNCH=single uses one GPU."),
    ],
)
def test_batch_size_is_never_reduced(settings: dict[str, str], remedy: str) -> None:
    done = shell('SIZE="${SIZE:-4}"; gpus 8; F=$(divided 64 GPUS SIZE); echo on', **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert next(iter(settings)) in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize(
    ("recipe", "number", "paper", "settings"),
    [
        ("shape", 2, "8", {"SEEDS": "1", "DATASETS": "vanilla", "KINDS": "absolute"}),
        ("gec_pseudo_data", 2, "8", {"MAX_TOKENS": "2000"}),
        ("wmt20", 7, "8", {"ROWS": "c", "MEMBERS": "1", "FINE_TOKENS": "1250"}),
        ("poda", 2, "4", {"MAX_TOKENS": "750", "TASKS": "gigaword conll jfleg"}),
        ("pie", 2, "1", {"TASKS": "gec", "GEC_MODELS": "1", "BERT": "/bert"}),
        ("pseudo_bidirectional", 2, "8", {"TASKS": "gec", "GEC_MAX_TOKENS": "2560"}),
        ("mein", 2, "1", {"TASKS": "elec", "EXPERTS": "adv", "SEEDS": "1"}),
        ("mein", 4, "1", {"TASKS": "elec", "EXPERTS": "lstm", "SEEDS": "1", "KINDS": "imitators"}),
        ("bytenet", 2, "1", {"TASKS": "memorize", "MEMORIZE_SHARE": "4"}),
    ],
)
def test_two_nodes_of_eight_gpus_have_the_batch_of_the_paper(
    recipe: str, number: int, paper: str, settings: dict[str, str]
) -> None:
    def batches(gpus: str, program: str, **launch: str) -> list[int]:
        (path,) = (ROOT / "examples" / recipe).glob(f"{number}_*.sh")
        changes = {"SCALE": "paper", "GPUS": gpus, **launch, **settings}
        commands = printed(path.parent, path.stem[2:], changes)
        return [batch(words) * int(gpus) for words in commands if words[0] == program]

    def batch(words: list[str]) -> int:
        named = {
            flag: int(value) for flag, value in pairwise(words) if flag in sizes and value.isdigit()
        }
        size = named.get("--max-tokens", named.get("--batch-size", 0))
        return size * named.get("--update-freq", 1)

    sizes = {"--max-tokens", "--batch-size", "--update-freq"}
    expected = batches(paper, "fairseq-train")
    assert expected
    assert min(expected) > 0
    assert batches("16", "srun", LAUNCH="slurm") == expected
    nodes = {"NODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "first"}
    assert batches("16", "torchrun", LAUNCH="torchrun", **nodes) == expected


def test_flags_and_logs_of_all_trainings() -> None:
    settings = {"FLAGS": "--lr 1 --fp16", "TENSORBOARD": "1", "WANDB_PROJECT": "pairs"}
    done = shell("launch_train data --save-dir runs/a", DRY_RUN="1", **settings)
    own = ["--lr", "1", "--fp16", "--tensorboard-logdir", "runs/a/tensorboard"]
    words = ["fairseq-train", "data", "--save-dir", "runs/a", *own, "--wandb-project", "pairs"]
    assert done.stdout.split() == [*words, "--distributed-world-size", "1"]
    recorded = shell("launch_train data --save-dir runs/a", RECORDING="1", **settings).stdout
    assert "--fp16" in recorded
    assert "tensorboard" not in recorded, "logs must not change the record of a target"


@pytest.mark.parametrize(
    ("settings", "started"),
    [
        ({"LAUNCH": "torchrun", "NODES": "2", "PROCESSES": "8"}, "16"),
        ({"LAUNCH": "slurm", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "4"}, "8"),
    ],
)
def test_another_number_of_processes_than_gpus_is_rejected(
    settings: dict[str, str], started: str
) -> None:
    settings |= {"DRY_RUN": "1", "NODE_RANK": "0", "MASTER_ADDR": "first"}
    launch = "gpus 4; launch_train data"
    done = shell(launch, **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"LAUNCH={settings['LAUNCH']} starts {started} processes" in done.stderr
    assert shell(launch, GPUS=started, **settings).returncode == 0


def test_slurm_starts_one_task_for_each_node_with_its_cpus_and_gpus() -> None:
    """A job with one task for each GPU sets variables of its tasks, which srun would inherit."""
    job = {"SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "8", "SLURM_NTASKS": "16"}
    job |= {"SLURM_NTASKS_PER_NODE": "8", "SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "32"}
    job |= {"SLURM_JOB_ID": "71234", "LAUNCH": "slurm"}
    words = shell("gpus 16; launch_train data", DRY_RUN="1", **job).stdout.split()
    started, trained = words[: words.index("fairseq-train")], words[words.index("fairseq-train") :]
    assert started == [
        *("srun", "--kill-on-bad-exit=1", "--ntasks-per-node", "1", "--ntasks", "2"),
        *("--cpus-per-task", "32"),
    ]
    assert trained == ["fairseq-train", "data", "--distributed-port", "29734"]


def test_srun_does_not_inherit_the_resources_of_a_task(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\nenv | grep -o '^SLURM_[A-Z_]*' | sort\n")
    srun.chmod(0o755)
    inherited = ("GPUS_PER_TASK", "NTASKS_PER_GPU", "CPUS_PER_GPU", "TRES_PER_TASK", "GPU_BIND")
    job = {f"SLURM_{name}": "1" for name in (*inherited, "JOB_ID", "JOB_NUM_NODES")}
    done = shell(f'PATH="{tmp_path}:$PATH"; launch_train data', LAUNCH="slurm", **job)
    assert done.stdout.split() == ["SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"], done.stderr


@pytest.mark.parametrize("launch", ["slurm", "torchrun", "node"])
def test_trainings_on_all_gpus_are_not_parallel(launch: str) -> None:
    nodes = {"NODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "first"}
    train = "torchrun() { echo on; }; srun() { torchrun; }; fairseq-train() { torchrun; }; "
    train += "spawn launch_train data; settle"
    done = shell(train, JOBS="2", LAUNCH=launch, **nodes)
    assert (done.returncode, done.stdout) == (2, "")
    assert "JOBS is 2" in done.stderr
    assert shell(train, JOBS="1", LAUNCH=launch, **nodes).stdout == "on\n"


@pytest.mark.parametrize("path", SECOND, ids=lambda path: path.parent.name)
def test_step_without_the_first_is_rejected(path: Path, tmp_path: Path) -> None:
    shown = step(path, {"WORK": str(tmp_path / "work")}, 2).stderr
    assert shown.startswith(f"{path.name}: {tmp_path}/work does not exist.")
    assert not list(tmp_path.iterdir())


def test_all_missing_and_empty_files_of_the_data_folder_are_listed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "train").touch()
    files = "folder train valid"
    done = shell(f"data_dir folder folder; data_dir text {files}; echo on", DATA_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    problems = f"{tmp_path}/train is empty. {tmp_path}/valid does not exist."
    assert done.stderr == f"DATA_DIR: {problems} Expected a folder with text.\n"


def test_node_uses_the_requested_gpus() -> None:
    done = shell("launch_train data", LAUNCH="node", GPUS="4", DRY_RUN="1")
    assert done.stdout.split() == ["fairseq-train", "data", "--distributed-world-size", "4"]
    nodes = {"NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "first", "LAUNCH": "torchrun"}
    words = shell("gpus 8; launch_train data", DRY_RUN="1", **nodes).stdout.split()
    assert words[words.index("--nproc-per-node") + 1] == "4"
    assert "NODE_RANK is '2'" in shell("launch_train data", **nodes | {"NODE_RANK": "2"}).stderr
