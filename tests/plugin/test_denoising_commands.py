"""Denoising pre-training with fairseq's commands: training, resuming, generation, fine-tuning."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from tests.conftest import OLD_HYDRA, PACKAGE, ROOT, TINY, Run, environment, train, weights

TASK = ("--task", "denoising_pretraining", "-s", "digits", "-t", "words", "--noise")
NOISE = "direct:keep=0.7:mask=0.1,denoise"
PRETRAIN = (
    *(*TASK, NOISE, "--criterion", "denoising_cross_entropy", "--dropout", "0.1"),
    *("--arch", "transformer_tiny", "--no-epoch-checkpoints"),
)


@pytest.fixture(scope="module")
def data(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus, with the mask token appended to the dictionaries."""
    folder = tmp_path_factory.mktemp("masked") / "bin"
    shutil.copytree(toy_data, folder)
    for language in ("words", "digits"):
        with (folder / f"dict.{language}.txt").open("a") as dictionary:
            dictionary.write("<mask> 1\n")
    return folder


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A checkpoint pre-trained with two workers, and the output of the training."""
    folder = tmp_path_factory.mktemp("pretrained")
    # a keep rate of 0.97, so that the small model quickly learns all words
    flags = ("--max-update", "250", "--num-workers", "2", "--denoise-keep-rate", "0.97")
    shown = train(data, folder, *PRETRAIN, *flags, "--label-smoothing", "0.1")
    return folder / "checkpoint_last.pt", shown


def test_training_logs_metrics_and_learns(pretrained: tuple[Path, str]) -> None:
    _, shown = pretrained
    losses = [float(loss) for loss in re.findall(r"on 'valid' subset \| loss ([\d.]+)", shown)]
    assert losses[-1] < 0.75 * losses[0]
    shares = [float(share) for share in re.findall(r"changed_share[ =]([\d.]+)", shown)]
    assert all(40 < share < 60 for share in shares)
    right = [float(right) for right in re.findall(r"changed_accuracy[ =]([\d.]+)", shown)]
    assert right[-1] > right[0]
    assert "can only test a child process" not in shown, "workers must not be started again"


def test_validation_is_reproducible(run: Run, data: Path, pretrained: tuple[Path, str]) -> None:
    checkpoint, shown = pretrained
    last = re.findall(r"valid on 'valid' subset \| (loss .*?) \| wps", shown)[-1]
    words = ("fairseq-validate", data, "--task", "denoising_pretraining", "--user-dir", PACKAGE)
    done = run(*words, "--path", checkpoint, "--valid-subset", "valid", "--max-tokens", "400")
    again = re.findall(r"valid on 'valid' subset \| (loss .*)", done.stdout + done.stderr)[-1]
    assert again.startswith(last)


def test_generate_denoises(run: Run, data: Path, pretrained: tuple[Path, str]) -> None:
    words = ("fairseq-generate", data, *TASK, NOISE, "--user-dir", PACKAGE, "--cpu")
    shown = run(*words, "--path", pretrained[0], "--gen-subset", "valid", "--beam", "2").stdout
    lines = {
        kind: dict(re.findall(rf"^{kind}-(\d+)\t(?:-[\d.]+\t)?(.*)$", shown, re.M))
        for kind in "SHT"
    }
    assert len(lines["S"]) == len(lines["H"]) == len(lines["T"]) == 200
    assert sum("<mask>" in source for source in lines["S"].values()) > 20
    written, wanted = (sum(len(text.split()) for text in lines[kind].values()) for kind in "HT")
    assert 0.5 * wanted < written < 1.5 * wanted, (
        "an untrained EOS would give 200 words per hypothesis"
    )


def test_words_beyond_the_vocabulary_are_copied(run: Run, data: Path, tmp_path: Path) -> None:
    search = ("--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_a": 1, "max_len_b": 2}')
    flags = (*PRETRAIN, "--arch", "pointer_transformer_tiny", "--copy-vocabulary", "12")
    shown = train(data, tmp_path, *flags, *search, "--max-update", "2")
    assert re.search(r"valid on 'valid' subset .* bleu ", shown)
    path = ("--path", tmp_path / "checkpoint_last.pt", "--gen-subset", "valid", "--cpu")
    for more in (("--beam", "2"), ("--score-reference",)):
        words = ("fairseq-generate", data, *TASK, NOISE, "--user-dir", PACKAGE, *path, *more)
        assert len(re.findall(r"^H-\d+\t-[\d.]+\t", run(*words).stdout, re.M)) == 200


@pytest.mark.parametrize("arch", ["transformer_tiny", "shape_transformer_tiny"])
def test_translation_is_initialized_from_the_checkpoint(
    data: Path, pretrained: tuple[Path, str], tmp_path: Path, arch: str
) -> None:
    flags = ("--finetune-from-model", str(pretrained[0]), "--max-update", "3")
    shown = train(data, tmp_path, *flags, "--no-epoch-checkpoints", "--lr", "0", arch=arch)
    assert "Loaded checkpoint" in shown
    before, after = weights(pretrained[0]), weights(tmp_path / "checkpoint_last.pt")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_killed_run_with_workers_equals_uninterrupted_run_without(
    data: Path, tmp_path: Path
) -> None:
    flags = (*PRETRAIN, "--max-update", "50", "--save-interval-updates", "7")
    train(data, tmp_path / "uninterrupted", *flags, "--num-workers", "0")
    start_and_kill(data, tmp_path / "killed", 14, *flags, "--num-workers", "2")
    shown = train(data, tmp_path / "killed", *flags, "--num-workers", "2")
    assert re.search(r"Loaded checkpoint .* \(epoch [2-9]", shown)
    uninterrupted, killed = (
        weights(tmp_path / name / "checkpoint_last.pt") for name in ("uninterrupted", "killed")
    )
    assert all(torch.equal(uninterrupted[name], killed[name]) for name in uninterrupted)


def start_and_kill(data: Path, save_dir: Path, at_update: int, *flags: str) -> None:
    """Train until there is a checkpoint of `at_update` or later, then send SIGKILL."""
    words = ("fairseq-train", data, "--user-dir", PACKAGE, *TINY, "--save-dir", save_dir, *flags)
    process = subprocess.Popen(
        [str(word) for word in words],
        env=environment(REAL_COMMANDS="1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def updates() -> int:
        names = [path.stem for path in save_dir.glob("checkpoint_[0-9]*.pt")]
        return max((int(name.rsplit("_", 1)[1]) for name in names), default=0)

    while updates() < at_update:
        assert process.poll() is None, "the training ended before it could be killed"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_two_processes_equal_one_with_double_accumulation(
    run: Run, data: Path, tmp_path: Path
) -> None:
    # processes sample unchanged words separately, so that none are sampled here
    flags = (*PRETRAIN, "--dropout", "0", "--denoise-keep-rate", "0", "--max-update", "12")
    train(data, tmp_path / "one", *flags, "--update-freq", "2", arch="transformer_tiny")
    launcher = f'source "{ROOT}/examples/common/launch.sh"; launch_train "$@"'
    words = (data, "--user-dir", PACKAGE, *TINY, *flags, "--save-dir", tmp_path / "two")
    run("bash", "-euo", "pipefail", "-c", launcher, "launch", *words, LAUNCH="cpu", PROCESSES="2")
    one, two = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-5, rtol=0, msg=name)


@pytest.mark.skipif(OLD_HYDRA, reason="Hydra 1.0 takes no task that it has no group for")
def test_hydra_train_accepts_task_and_criterion(run: Run, data: Path, tmp_path: Path) -> None:
    run(
        *("fairseq-hydra-train", f"common.user_dir={PACKAGE}", f"+task.data={data}"),
        *("+task._name=denoising_pretraining", "+task.source_lang=digits"),
        *("+task.target_lang=words", "+task.noise='direct:keep=0.5,denoise'"),
        *("criterion._name=denoising_cross_entropy", "+criterion.denoise_keep_rate=0.1"),
        *("+model._name=transformer_tiny", "+model.share_all_embeddings=true"),
        *("optimizer=adam", "optimization.lr=[0.001]", "optimization.max_update=2"),
        *("dataset.max_tokens=500", "common.cpu=true", f"checkpoint.save_dir={tmp_path / 'run'}"),
        *("checkpoint.no_epoch_checkpoints=true", f"hydra.run.dir={tmp_path / 'hydra'}"),
        *("common.seed=4",),
        cwd=tmp_path,
        HYDRA_FULL_ERROR="1",
    )
    cfg = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)["cfg"]
    assert (cfg["task"]["noise"], cfg["task"]["seed"]) == ("direct:keep=0.5,denoise", 4)
    assert cfg["criterion"]["denoise_keep_rate"] == 0.1


def test_loss_requires_noised_positions(run: Run, toy_data: Path, tmp_path: Path) -> None:
    words = ("fairseq-train", toy_data, "--user-dir", PACKAGE, *TINY, "--save-dir", tmp_path)
    stock = ("--arch", "transformer_tiny", "--criterion", "denoising_cross_entropy")
    shown = run(*words, *stock, "--max-update", "1", code=1).stderr
    assert "Use --task denoising_pretraining" in shown
