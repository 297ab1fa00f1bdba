"""ByteNet in fairseq's commands."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import PACKAGE, ROOT, Run, weights

TRAINING = (
    *("--user-dir", PACKAGE, "--arch", "bytenet_digits", "--optimizer", "adam", "--lr", "0.003"),
    *("--criterion", "cross_entropy", "--sentence-avg", "--batch-size", "32", "--bytenet-sets"),
    *("1", "--log-format", "simple", "--seed", "1", "--cpu"),
)

LANGUAGES = ("-s", "digits", "-t", "words")


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of numbers in digits and in words."""
    folder = tmp_path_factory.mktemp("digits")
    sizes = ("--labeled", "300", "--valid", "20", "--test", "40")
    run(sys.executable, ROOT / "examples/bytenet/digits.py", folder, *sizes)
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    dictionary = ("--srcdict", folder / "dict.txt", "--tgtdict", folder / "dict.txt")
    run("fairseq-preprocess", *LANGUAGES, *dictionary, *splits, "--destdir", folder / "bin")
    return folder / "bin"


def generated(run: Run, data: Path, path: str | Path, *flags: str) -> dict[str, tuple[float, str]]:
    """Return score and hypothesis of fairseq-generate by line."""
    words = ("fairseq-generate", data, "--user-dir", PACKAGE, "--path", path, "--cpu", *flags)
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", run(*words).stdout, re.M)
    assert len(found) == 40
    return {line: (float(score), text) for line, score, text in found}


def answered(run: Run, data: Path, path: str | Path, lines: list[str]) -> list[tuple[float, str]]:
    """Return score and hypothesis of fairseq-interactive for each line."""
    words = ("fairseq-interactive", data, "--user-dir", PACKAGE, "--path", path, "--cpu")
    flags = ("--beam", "3", "--buffer-size", "20", "--batch-size", "8")
    shown = run(*words, *flags, *LANGUAGES, text="".join(f"{line}\n" for line in lines)).stdout
    assert re.findall(r"^S-\d+\t(.*)$", shown, re.M) == lines
    found = re.findall(r"^H-\d+\t(\S+)\t(.*)$", shown, re.M)
    return [(float(score), text) for score, text in found]


@pytest.mark.slow
def test_training_resuming_and_decoding(run: Run, data: Path, tmp_path: Path) -> None:
    steps = ("--max-update", "40", "--save-interval-updates", "15", "--save-dir", tmp_path / "one")
    run("fairseq-train", data, *TRAINING, *steps)
    state = weights(tmp_path / "one/checkpoint_last.pt")
    slope, offset = state["encoder.unfolding.line"].tolist()
    assert slope / 100 * 4 + offset >= 18  # 777 with EOS has three words of five letters
    begun = next((tmp_path / "one").glob("checkpoint_*_15.pt"))
    again = ("--restore-file", begun, "--max-update", "40", "--save-dir", tmp_path / "two")
    run("fairseq-train", data, *TRAINING, *again)
    resumed = weights(tmp_path / "two/checkpoint_last.pt")
    assert all((weight == resumed[name]).all() for name, weight in state.items())
    one = tmp_path / "one/checkpoint_last.pt"
    together = generated(run, data, one, "--beam", "3")
    assert len({text for _, text in together.values()}) > 10
    for path, flags in ((one, ("--batch-size", "1")), (f"{one}:{one}", ())):
        other = generated(run, data, path, "--beam", "3", *flags)
        for line, (score, text) in together.items():
            assert other[line][1] == text
            assert abs(other[line][0] - score) < 1e-4
    lines = (data.parent / "test.digits").read_text(encoding="utf-8").splitlines()[:12]
    for number, (score, text) in enumerate(answered(run, data, one, lines)):
        assert text == together[str(number)][1]
        assert abs(score - together[str(number)][0]) < 1e-4
    assert len(answered(run, data, one, ["7 7 7 7 7 7 7", "1"])) == 2  # lengths unseen in training


def test_combined_splits_are_not_needed_to_decode(run: Run, data: Path, tmp_path: Path) -> None:
    several = tmp_path / "bin"
    shutil.copytree(data, several)
    for file in data.glob("valid.*"):
        shutil.copy(file, several / file.name.replace("valid", "train1"))
    few = ("--upsample-primary", "1", "--max-update", "2", "--save-dir", tmp_path)
    run("fairseq-train", several, *TRAINING, *few)
    path = tmp_path / "checkpoint_last.pt"
    assert generated(run, several, path) == generated(run, data, path)
