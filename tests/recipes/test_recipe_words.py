"""Helpers of all recipes: parallelism, wrong settings and folders."""

from __future__ import annotations

import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.recipes.recipe import printed, step

COMMON = ROOT / "examples/common"
FIRST = sorted(ROOT.glob("examples/*/1_*.sh"))
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


@pytest.mark.parametrize("jobs", ["0", "x", "-1", ""])
def test_a_wrong_number_of_jobs_is_rejected(jobs: str) -> None:
    done = shell("echo began", JOBS=jobs)
    if jobs:
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"JOBS is '{jobs}'. Expected a number, 1 or more.\n"
    else:
        assert done.stdout == "began\n"


def test_each_job_has_a_gpu_if_there_are_enough() -> None:
    job = 'job() { sleep "$1"; echo "$1 $CUDA_VISIBLE_DEVICES"; }; '
    spawned = "spawn job 0.9; spawn job 0.3; spawn job 0.5; settle"
    done = shell(job + spawned, JOBS="2", CUDA_VISIBLE_DEVICES="5,7")
    assert sorted(done.stdout.splitlines()) == ["0.3 7", "0.5 7", "0.9 5"], done.stderr
    done = shell(job + spawned, JOBS="3", CUDA_VISIBLE_DEVICES="5,7")
    assert sorted(done.stdout.splitlines()) == ["0.3 7", "0.5 5", "0.9 5"], done.stderr


@pytest.mark.parametrize(
    ("recipe", "name", "settings"),
    [
        ("wmt20", "generate", {"SYSTEMS": "base\ntagged"}),
        ("wmt20", "rerank", {"SETS": "valid:v\n test:t", "ROWS": "f\na"}),
        ("mein", "expert", {"EXPERTS": "lstm\n\tlm"}),
        ("bytenet", "train", {"TASKS": "text", "KINDS": "supervised\nbytenet"}),
        ("pie", "score", {"TASKS": "gec", "METRICS": "m2\nerrant"}),
    ],
)
def test_a_list_can_have_line_breaks(recipe: str, name: str, settings: dict[str, str]) -> None:
    folder = ROOT / "examples" / recipe
    lines = {key: " ".join(value.split()) for key, value in settings.items()}
    with_breaks, without = (
        printed(folder, name, {"SCALE": "paper", **given}) for given in (settings, lines)
    )
    assert with_breaks == without


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
        ({"GPUS": "16", "LAUNCH": "slurm"}, "16 slurm 1"),
    ],
)
def test_gpus_divide_the_batch_of_the_paper(settings: dict[str, str], expected: str) -> None:
    done = shell("gpus 8; F=$(divided 16 GPUS); echo $GPUS $LAUNCH $F", **settings)
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"GPUS": "5"},
            "GPUS=5 SIZE=4: a batch size of 64 is not divisible by 20. Lower one of these",
        ),
        (
            {"GPUS": "32"},
            "GPUS=32 SIZE=4: a batch size of 64 is not divisible by 128. Set SIZE=2.",
        ),
        (
            {"GPUS": "8", "SIZE": "7"},
            "GPUS=8 SIZE=7: a batch size of 64 is not divisible by 56. Set SIZE=4.",
        ),
        ({"SIZE": "0"}, "GPUS=8 SIZE=0: a batch size of 64 is not divisible by 0. Expected"),
        ({"GPUS": "0"}, "GPUS is '0'. Expected a number, 1 or more."),
        ({"GPUS": "all"}, "GPUS is 'all'. Expected a number, 1 or more."),
        ({"GPUS": "2", "LAUNCH": "single"}, "GPUS is 2, but LAUNCH=single uses one GPU."),
    ],
)
def test_batch_size_is_never_reduced(settings: dict[str, str], message: str) -> None:
    done = shell('SIZE="${SIZE:-4}"; gpus 8; F=$(divided 64 GPUS SIZE); echo on', **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_advice_for_a_batch_never_raises_a_setting() -> None:
    assert "Set GPUS=4." in shell("GPUS=5; divided 32 GPUS").stderr
    settings = {"GPUS": "2", "MAX_TOKENS": "3500"}
    assert "Set MAX_TOKENS=3200." in shell("divided 32000 GPUS MAX_TOKENS", **settings).stderr


def test_node_uses_the_requested_gpus() -> None:
    done = shell("launch_train data", LAUNCH="node", GPUS="4", DRY_RUN="1")
    assert done.stdout.split() == ["fairseq-train", "data", "--distributed-world-size", "4"]
    done = shell("launch_train data", LAUNCH="node", DRY_RUN="1")
    assert done.stdout.split() == ["fairseq-train", "data"]
    done = shell("launch_train data", GPUS="4", DRY_RUN="1")  # no batch divided
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("GPUS is 4, but LAUNCH=single uses one GPU.")


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
        ("bytenet", 2, "1", {"TASKS": "text", "SEEDS": "1", "BYTENET_SHARE": "4"}),
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


@pytest.mark.parametrize("recipe", ["pie", "pseudo_bidirectional"])
def test_words_use_one_gpu_beside_grammar_on_several(recipe: str) -> None:
    settings = {"SCALE": "paper", "TASKS": "ocr gec", "FOLDS": "0", "BERT": "/bert"}
    commands = printed(ROOT / "examples" / recipe, "train", {**settings, "GPUS": "8"})
    sizes = {
        words[words.index("--distributed-world-size") + 1]: "/data/ocr." in words[1]
        for words in commands
        if words[0] == "fairseq-train"
    }
    assert sizes == {"1": True, "8": False}


def test_flags_and_logs_of_all_trainings() -> None:
    settings = {"FLAGS": "--lr 1 --fp16", "TENSORBOARD": "1", "WANDB_PROJECT": "pairs"}
    done = shell("launch_train data --save-dir runs/a", DRY_RUN="1", **settings)
    own = ["--lr", "1", "--fp16", "--tensorboard-logdir", "runs/a/tensorboard"]
    words = ["fairseq-train", "data", "--save-dir", "runs/a", *own, "--wandb-project", "pairs"]
    assert done.stdout.split() == [*words, "--distributed-world-size", "1"]
    done = shell("launch_train data --save-dir=runs/a", DRY_RUN="1", **settings)
    assert "--tensorboard-logdir runs/a/tensorboard" in done.stdout
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
    expected = f"GPUS is 4, but LAUNCH={settings['LAUNCH']} starts {started} processes"
    assert done.stderr.startswith(expected)
    assert shell(launch, GPUS=started, **settings).returncode == 0


def test_the_message_of_a_failed_check_is_shown(tmp_path: Path) -> None:
    """launch_train fails without ending an interactive shell, and quietly shows the message."""
    settings = {"LAUNCH": "cpu", "GPUS": "8"}
    assert shell("launch_train data || echo on", **settings).stdout == "on\n"
    done = shell(f"quietly {tmp_path}/log launch_train data", **settings)
    assert done.returncode == 1
    assert done.stderr.startswith("GPUS is 8, but LAUNCH=cpu starts 2 processes")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"GPUS": "5"}, "GPUS is 5, which is not divisible by NODES=2."),
        ({"NODES": ""}, "LAUNCH=torchrun needs NODES, NODE_RANK and MASTER_ADDR. Set NODES."),
        ({"NODES": "two"}, "NODES is 'two'. Expected a number, 1 or more."),
        ({"GPUS": "x"}, "GPUS is 'x'. Expected a number, 1 or more."),
        ({"PROCESSES": "0"}, "PROCESSES is '0'. Expected a number, 1 or more."),
        ({"NODE_RANK": "2"}, "NODE_RANK is '2'. Expected a number from 0 to 1, below NODES."),
        ({"NODE_RANK": "-1"}, "NODE_RANK is '-1'. Expected a number from 0 to 1, below NODES."),
    ],
)
def test_settings_of_torchrun_are_checked(settings: dict[str, str], message: str) -> None:
    nodes = {"NODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "first", "LAUNCH": "torchrun"}
    done = shell("launch_train data", DRY_RUN="1", **(nodes | settings))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_a_training_needs_arguments() -> None:
    done = shell("launch_train", DRY_RUN="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "launch_train needs the arguments of fairseq-train.\n"


def test_processes_on_a_cpu_divide_the_batch() -> None:
    assert shell("gpus 8; divided 32 GPUS", LAUNCH="cpu").stdout == "16\n"
    assert shell("gpus 8; divided 32 GPUS", LAUNCH="cpu", PROCESSES="4").stdout == "8\n"
    done = shell("gpus 8; launch_train data", LAUNCH="cpu", GPUS="8", DRY_RUN="1")
    assert done.returncode == 2
    assert done.stderr.startswith("GPUS is 8, but LAUNCH=cpu starts 2 processes")


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
    words = shell("launch_train data", DRY_RUN="1", MASTER_PORT="4000", **job).stdout.split()
    assert words[-1] == "4000"
    salloc = {"SLURM_CPUS_ON_NODE": "", "SLURM_JOB_CPUS_PER_NODE": "64(x2),32"}
    words = shell("launch_train data", DRY_RUN="1", **(job | salloc)).stdout.split()
    assert words[words.index("--cpus-per-task") + 1] == "64"


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
    assert done.stderr.startswith(f"JOBS is 2, but a training with LAUNCH={launch} uses all GPUs.")
    assert shell(train, JOBS="1", LAUNCH=launch, **nodes).stdout == "on\n"


def test_torchrun_divides_the_gpus_among_the_nodes() -> None:
    nodes = {"NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "first", "LAUNCH": "torchrun"}
    words = shell("gpus 8; launch_train data", DRY_RUN="1", **nodes).stdout.split()
    assert words[words.index("--nproc-per-node") + 1] == "4"


@pytest.mark.parametrize("path", SECOND, ids=lambda path: path.parent.name)
def test_step_without_the_first_is_rejected(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", path], env=environment(), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    shown = (
        f"{path.name}: work/{path.parent.name}/tiny does not exist. Run the previous steps first"
    )
    assert done.stderr.startswith(shown)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a:b", "o'clock"])
def test_work_that_fairseq_or_a_shell_would_split_is_rejected(tmp_path: Path, name: str) -> None:
    work = tmp_path / name
    shown = step(ROOT / "examples/poda/1_prepare.sh", {"WORK": str(work)}, 2).stderr
    assert shown.startswith(f"WORK is {work}. Expected a folder without a colon or an apostrophe")
    assert not work.exists()


@pytest.mark.parametrize("name", ["bytenet/4_score.sh", "shape/4_score.sh", "wmt20/6_score.sh"])
def test_missing_files_of_previous_steps_are_named(tmp_path: Path, name: str) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path)}
    errors = step(ROOT / "examples" / name, settings, code=2).stderr.splitlines()
    assert re.fullmatch(rf"{Path(name).name}: {tmp_path}/\S+ does not exist\. .*", errors[-1])
    assert len(errors) == 2, errors


@pytest.mark.parametrize("path", FIRST, ids=lambda path: path.parent.name)
def test_wrong_data_folder_is_reported_first(path: Path, tmp_path: Path) -> None:
    settings = {"SCALE": "small", "DATA_DIR": str(tmp_path / "data"), "WORK": str(tmp_path)}
    if path.parent.name == "bytenet":
        settings["TASKS"] = "text"
    shown = step(path, settings, 2).stderr
    assert f"DATA_DIR: {tmp_path}/data/" in shown
    assert " does not exist. Expected a folder with " in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("recipe", "files"),
    [
        ("bytenet", "memorize.de train.de valid.en test.en mono.de"),
        ("gec_pseudo_data", "train valid.m2 conll14.m2 jfleg/test.ref3 bea.src simplewiki.txt"),
        ("mein", "elec/train.tsv elec/test.tsv imdb/unlabelled.txt rcv1/test.tsv"),
        ("pie", "train.src clean.txt test.src test.m2"),
        ("pseudo_bidirectional", "ocr/klk.0.train ocr/klk.9.dev spell/twitter.9.test"),
        ("shape", "train.tok.clean.bpe.32000.en newstest2010.tok.bpe.32000.de newstest2016.en"),
    ],
)
def test_the_first_step_lists_the_files_of_all_steps(
    recipe: str, files: str, tmp_path: Path
) -> None:
    settings = {"SCALE": "paper", "DATA_DIR": str(tmp_path), "WORK": str(tmp_path / "work")}
    if recipe == "pie":
        settings |= {"TASKS": "gec", "BERT": str(tmp_path)}
    elif recipe == "pseudo_bidirectional":
        settings["TASKS"] = "ocr spell"
    (path,) = (ROOT / "examples" / recipe).glob("1_*.sh")
    shown = step(path, settings, 2).stderr.splitlines()[-1]
    assert all(f" {tmp_path}/{name}" in shown for name in files.split()), shown


def test_all_missing_and_empty_files_of_the_data_folder_are_listed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "train").touch()
    files = "folder train valid"
    done = shell(f"data_dir folder folder; data_dir text {files}; echo on", DATA_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    problems = f"{tmp_path}/train is empty. {tmp_path}/valid does not exist."
    assert done.stderr == f"DATA_DIR: {problems} Expected a folder with text.\n"


def test_a_data_folder_with_an_apostrophe_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "user's"
    folder.mkdir()
    (folder / "train").write_text("a\n")
    done = shell("data_dir train train; echo on", DATA_DIR=str(folder))
    expected = f"DATA_DIR is {folder}. Expected a folder without an apostrophe in its name.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


@pytest.mark.parametrize("word", ["tiny small", "", " tiny", "large", "mall"])
def test_only_whole_words_of_a_setting_are_accepted(word: str) -> None:
    done = shell(f"expect SCALE 'tiny small' tiny small '{word}'; echo on")
    expected = f"SCALE has '{word}'. Expected tiny, small.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
    assert shell("expect SCALE 'tiny small' tiny small; echo on").stdout == "on\n"
