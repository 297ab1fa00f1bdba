"""fairseq's commands with --user-dir, run as subprocesses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import fairseq_ssl
from tests.conftest import OLD_HYDRA, PACKAGE, ROOT, TINY, Run, train, weights

fairseq_ssl.register()
from fairseq_ssl.models.shape_transformer import ShapeTransformerModel  # noqa: E402

SHORT = ("--max-update", "3", "--no-epoch-checkpoints")


def test_train_with_user_dir_from_a_checkout(run: Run, toy_data: Path, tmp_path: Path) -> None:
    words = ("fairseq-train", toy_data, "--user-dir", "fairseq_ssl", "--arch")
    run(*words, "shape_transformer_tiny", *TINY, *SHORT, "--save-dir", tmp_path, cwd=ROOT)
    assert (tmp_path / "checkpoint_last.pt").is_file()


def test_train_with_the_printed_user_dir(run: Run, toy_data: Path, tmp_path: Path) -> None:
    user_dir = run("fairseq-ssl", "user-dir", cwd=tmp_path).stdout.strip()
    assert Path(user_dir) == PACKAGE
    words = ("fairseq-train", toy_data, "--user-dir", user_dir, "--arch", "shape_transformer_tiny")
    run(*words, *TINY, *SHORT, "--save-dir", "run", cwd=tmp_path)
    assert (tmp_path / "run/checkpoint_last.pt").is_file()


def test_generate(run: Run, toy_data: Path, trained: Path) -> None:
    shown = run(
        *("fairseq-generate", toy_data, "--user-dir", PACKAGE, "--beam", "2", "--cpu"),
        *("--path", trained / "checkpoint_last.pt", "--gen-subset", "valid"),
    ).stdout
    assert len(re.findall(r"^H-\d+\t", shown, re.M)) == len(re.findall(r"^T-\d+\t", shown, re.M))
    assert shown.count("\nH-") > 100


def test_interactive(run: Run, toy_data: Path, trained: Path) -> None:
    words = ("fairseq-interactive", toy_data, "--user-dir", PACKAGE, "--cpu")
    shown = run(*words, "--path", trained / "checkpoint_last.pt", text="seven and four\n").stdout
    assert re.search(r"^S-0\tseven and four$", shown, re.M)
    assert re.search(r"^H-0\t\S+\t[\d ]+$", shown, re.M)


def test_validate_reports_the_loss_of_training(run: Run, toy_data: Path, trained: Path) -> None:
    words = ("fairseq-validate", toy_data, "--task", "translation", "--user-dir", PACKAGE, "--cpu")
    checkpoint = trained / "checkpoint_best.pt"
    done = run(*words, "--path", checkpoint, "--valid-subset", "valid", "--max-tokens", "1000")
    shown = done.stdout + done.stderr
    loss = re.search(r"valid on 'valid' subset \| loss ([\d.]+)", shown)
    assert loss is not None
    assert float(loss[1]) < 3  # an untrained model: log2 of 40 words is 5.3


@pytest.mark.skipif(OLD_HYDRA, reason="Hydra 1.0 takes no model that it has no group for")
def test_hydra_train_accepts_the_model(run: Run, toy_data: Path, tmp_path: Path) -> None:
    run(
        *("fairseq-hydra-train", f"task.data={toy_data}", "task=translation"),
        *("task.source_lang=words", "task.target_lang=digits", f"common.user_dir={PACKAGE}"),
        *("+model._name=shape_transformer_tiny", "+model.shape_max_shift=9"),
        *("+model.share_all_embeddings=true", "criterion=cross_entropy"),
        *("optimizer=adam", "optimization.lr=[0.001]", "optimization.max_update=2"),
        *("dataset.max_tokens=500", "common.cpu=true", f"checkpoint.save_dir={tmp_path / 'run'}"),
        *("checkpoint.no_epoch_checkpoints=true", f"hydra.run.dir={tmp_path / 'hydra'}"),
        cwd=tmp_path,
        HYDRA_FULL_ERROR="1",
    )
    cfg = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)["cfg"]
    assert cfg["model"]["shape_max_shift"] == 9


def test_from_pretrained(toy_data: Path, trained: Path) -> None:
    model = ShapeTransformerModel.from_pretrained(
        str(trained), "checkpoint_last.pt", data_name_or_path=str(toy_data)
    )
    assert re.fullmatch(r"[\d\s]+", model.translate("seven and four"))
    assert not ShapeTransformerModel.hub_models()


def test_unknown_flags_and_invalid_values_are_rejected(
    run: Run, toy_data: Path, tmp_path: Path
) -> None:
    words = ("fairseq-train", toy_data, "--user-dir", PACKAGE, "--arch", "shape_transformer_tiny")
    shown = run(*words, *TINY, "--shape-max-shif", "3", code=2).stderr
    assert "--shape-max-shif" in shown
    shown = run(*words, *TINY, "--shape-max-shift", "-3", "--save-dir", tmp_path, code=1).stderr
    assert "--shape-max-shift is -3; expected 0 or more tokens." in shown
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize("arch", ["transformer_tiny", "shape_transformer_tiny"])
def test_fairseq_and_shape_weights_are_interchangeable(
    toy_data: Path, trained: Path, tmp_path: Path, arch: str
) -> None:
    finetune = ("--finetune-from-model", str(trained / "checkpoint_last.pt"))
    shown = train(toy_data, tmp_path, *finetune, *SHORT, arch=arch)
    assert "Loaded checkpoint" in shown


def test_training_with_max_shift_0_equals_fairseq_bit_for_bit(
    toy_data: Path, tmp_path: Path
) -> None:
    flags = ("--dropout", "0.2", "--max-update", "12", "--no-epoch-checkpoints")
    shift = ("--shape-max-shift", "0")
    train(toy_data, tmp_path / "stock", *flags, arch="transformer_tiny")
    train(toy_data, tmp_path / "zero", *flags, *shift)
    train(toy_data, tmp_path / "shifted", *flags)
    stock, zero, shifted = (
        weights(tmp_path / name / "checkpoint_last.pt") for name in ("stock", "zero", "shifted")
    )
    assert stock.keys() == zero.keys() == shifted.keys()
    assert all(torch.equal(stock[name], zero[name]) for name in stock)
    assert not all(torch.equal(stock[name], shifted[name]) for name in stock)


@pytest.mark.slow
def test_relative_positions_train_resume_and_decode(
    run: Run, toy_data: Path, tmp_path: Path
) -> None:
    flags = ("--shape-positions", "relative", "--shape-relative-limit", "3", "--dropout", "0.1")
    attention = ("--attention-dropout", "0.1", "--no-epoch-checkpoints", "--max-update")
    train(toy_data, tmp_path / "whole", *flags, *attention, "12")
    for updates in ("5", "12"):
        train(toy_data, tmp_path / "resumed", *flags, *attention, updates)
    whole, resumed = (
        weights(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "resumed")
    )
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    shown = run(
        *("fairseq-generate", toy_data, "--user-dir", PACKAGE, "--beam", "2", "--cpu"),
        *("--path", tmp_path / "whole/checkpoint_last.pt", "--gen-subset", "valid"),
    ).stdout
    assert len(re.findall(r"^H-\d+\t", shown, re.M)) == 200
