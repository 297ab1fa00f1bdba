"""Corpora of the tests of fairseq's commands, built once for all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import build_once, run_command
from tests.learning import names
from tests.plugin import digit_pairs


@pytest.fixture(scope="session")
def masked_data(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus, with the mask token and a tag appended to the dictionaries."""

    def build(folder: Path) -> None:
        shutil.copytree(toy_data, folder, dirs_exist_ok=True)
        for language in ("words", "digits"):
            with (folder / f"dict.{language}.txt").open("a") as dictionary:
                dictionary.write("<mask> 1\n<BT> 1\n")

    return build_once(tmp_path_factory, "masked_data", build)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 numbers in words and digits in bin/, and 60 in each monolingual text in mono/."""
    sizes = {"labeled": 24, "unlabeled": 60, "valid": 8, "test": 8}
    return build_once(
        tmp_path_factory, "digits", lambda folder: digit_pairs.write(run_command, folder, **sizes)
    )


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences with names that the dictionary lacks, in raw/ as text with that dictionary."""

    def build(folder: Path) -> None:
        for seed, (split, lines) in enumerate({"train": 300, "valid": 30, "test": 30}.items()):
            names.write(folder, split, lines, seed)
        words = [*names.KNOWN, *(word.replace("w", "v") for word in names.KNOWN)]
        (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
        raw = ("--dataset-impl", "raw", "--srcdict", folder / "dict.txt")
        names.preprocess(folder, folder / "raw", *raw)

    return build_once(tmp_path_factory, "named", build)
