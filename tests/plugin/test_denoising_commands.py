"""Denoising pre-training with fairseq's commands: training, generation, fine-tuning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import fairseq_ssl
from tests.conftest import PACKAGE, TINY, Run, train
from tests.plugin.runs import equal

fairseq_ssl.register()
from fairseq import checkpoint_utils  # noqa: E402

TASK = ("--task", "denoising_pretraining", "-s", "digits", "-t", "words", "--noise")
NOISE = "direct:keep=0.7:mask=0.1,shuffle"
PRETRAIN = (
    *(*TASK, NOISE, "--criterion", "denoising_cross_entropy", "--dropout", "0.1"),
    *("--arch", "transformer_tiny", "--no-epoch-checkpoints"),
)


@pytest.fixture(scope="module")
def pretrained(masked_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A checkpoint pre-trained with two workers, and the output of the training."""
    folder = tmp_path_factory.mktemp("pretrained")
    # a keep rate of 0.97, so that the small model quickly learns all words
    flags = ("--max-update", "250", "--num-workers", "2", "--denoise-keep-rate", "0.97")
    shown = train(masked_data, folder, *PRETRAIN, *flags, "--label-smoothing", "0.1")
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


def test_generate_denoises(run: Run, masked_data: Path, pretrained: tuple[Path, str]) -> None:
    words = ("fairseq-generate", masked_data, *TASK, NOISE, "--user-dir", PACKAGE, "--cpu")
    shown = run(*words, "--path", pretrained[0], "--gen-subset", "valid", "--beam", "2").stdout
    lines = {
        kind: dict(re.findall(rf"^{kind}-(\d+)\t(?:-[\d.]+\t)?(.*)$", shown, re.M))
        for kind in "SHT"
    }
    assert len(lines["S"]) == len(lines["H"]) == len(lines["T"]) == 200
    assert sum("<mask>" in source for source in lines["S"].values()) > 20
    written, wanted = (sum(len(text.split()) for text in lines[kind].values()) for kind in "HT")
    assert 0.5 * wanted < written < 2 * wanted, (
        "an untrained EOS would give 200 words per hypothesis"
    )


def test_words_beyond_the_vocabulary_are_copied(
    run: Run, masked_data: Path, tmp_path: Path
) -> None:
    search = ("--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_a": 1, "max_len_b": 2}')
    flags = (*PRETRAIN, "--arch", "pointer_transformer_tiny", "--copy-vocabulary", "12")
    shown = train(masked_data, tmp_path, *flags, *search, "--max-update", "2")
    assert re.search(r"valid on 'valid' subset .* bleu ", shown)
    path = ("--path", tmp_path / "checkpoint_last.pt", "--gen-subset", "valid", "--cpu")
    for more in (("--beam", "2"), ("--score-reference",)):
        words = ("fairseq-generate", masked_data, *TASK, NOISE, "--user-dir", PACKAGE, *path, *more)
        assert len(re.findall(r"^H-\d+\t-[\d.]+\t", run(*words).stdout, re.M)) == 200


def test_translation_is_initialized_from_the_checkpoint(
    masked_data: Path, pretrained: tuple[Path, str], tmp_path: Path
) -> None:
    flags = ("--finetune-from-model", str(pretrained[0]), "--max-update", "3")
    train(masked_data, tmp_path, *flags, "--no-epoch-checkpoints", "--lr", "0")
    assert equal(pretrained[0], tmp_path / "checkpoint_last.pt")


def test_checkpoint_with_the_noise_names_of_version_0_2_resumes(
    masked_data: Path, pretrained: tuple[Path, str], tmp_path: Path
) -> None:
    state = torch.load(pretrained[0], weights_only=False)
    state["cfg"]["task"]["noise"] = "direct:keep=0.7:mask=0.1,denoise:deviation=0.03"
    torch.save(state, tmp_path / "checkpoint_last.pt")
    overrides = {"data": str(masked_data)}
    _, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "checkpoint_last.pt")], overrides
    )
    assert [spec.kind for spec in task.settings] == ["direct", "shuffle"]
    train(masked_data, tmp_path, *PRETRAIN, "--max-update", "252", "--label-smoothing", "0.1")
    resumed = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    assert resumed["optimizer_history"][-1]["num_updates"] == 252


def test_loss_requires_noised_positions(run: Run, toy_data: Path, tmp_path: Path) -> None:
    words = ("fairseq-train", toy_data, "--user-dir", PACKAGE, *TINY, "--save-dir", tmp_path)
    stock = ("--arch", "transformer_tiny", "--criterion", "denoising_cross_entropy")
    shown = run(*words, *stock, "--max-update", "1", code=1).stderr
    assert "Use --task denoising_pretraining" in shown
