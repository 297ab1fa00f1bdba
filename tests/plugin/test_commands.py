"""fairseq's commands with --user-dir, run as subprocesses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fairseq_ssl
from tests.conftest import PACKAGE, ROOT, TINY, Run, train

fairseq_ssl.register()
from fairseq_ssl.models.shape_transformer import ShapeTransformerModel  # noqa: E402

SHORT = ("--max-update", "3", "--no-epoch-checkpoints")


def test_train_with_both_forms_of_the_user_dir(run: Run, toy_data: Path, tmp_path: Path) -> None:
    printed = run("fairseq-ssl", "user-dir", cwd=tmp_path).stdout.strip()
    assert Path(printed) == PACKAGE
    for user_dir, folder in (("fairseq_ssl", ROOT), (printed, tmp_path)):
        words = ("fairseq-train", toy_data, "--user-dir", user_dir, *TINY, *SHORT)
        save = tmp_path / folder.name
        run(*words, "--arch", "shape_transformer_tiny", "--save-dir", save, cwd=folder)
        assert (save / "checkpoint_last.pt").is_file()


def test_generate(run: Run, toy_data: Path, trained: Path) -> None:
    words = ("fairseq-generate", toy_data, "--user-dir", PACKAGE, "--beam", "2", "--cpu")
    path = ("--path", trained / "checkpoint_last.pt", "--gen-subset", "valid")
    shown = run(*words, *path).stdout
    assert [len(re.findall(rf"^{kind}-\d+\t", shown, re.M)) for kind in "STH"] == [200] * 3


def test_interactive(run: Run, toy_data: Path, trained: Path) -> None:
    words = ("fairseq-interactive", toy_data, "--user-dir", PACKAGE, "--cpu")
    shown = run(*words, "--path", trained / "checkpoint_last.pt", text="seven and four\n").stdout
    assert re.search(r"^S-0\tseven and four$", shown, re.M)
    assert re.search(r"^H-0\t\S+\t[\d ]+$", shown, re.M)


def test_from_pretrained(toy_data: Path, trained: Path) -> None:
    model = ShapeTransformerModel.from_pretrained(
        str(trained), "checkpoint_last.pt", data_name_or_path=str(toy_data)
    )
    assert re.fullmatch(r"[\d\s]+", model.translate("seven and four"))
    assert not ShapeTransformerModel.hub_models()


@pytest.mark.parametrize(
    ("flags", "code"), [(("--shape-max-shif", "3"), 2), (("--shape-max-shift", "-3"), 1)]
)
def test_unknown_flags_and_invalid_values_are_rejected(
    flags: tuple[str, ...], code: int, run: Run, toy_data: Path, tmp_path: Path
) -> None:
    words = ("fairseq-train", toy_data, "--user-dir", PACKAGE, "--arch", "shape_transformer_tiny")
    shown = run(*words, *TINY, *flags, "--save-dir", tmp_path, code=code).stderr
    assert flags[0] in shown.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arch", ["transformer_tiny", "shape_transformer_tiny"])
def test_fairseq_and_shape_weights_are_interchangeable(
    toy_data: Path, trained: Path, tmp_path: Path, arch: str
) -> None:
    finetune = ("--finetune-from-model", str(trained / "checkpoint_last.pt"))
    shown = train(toy_data, tmp_path, *finetune, *SHORT, arch=arch)
    assert "Loaded checkpoint" in shown
