"""The bound on the lengths of ByteNet's targets, which is stored with the weights."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import PACKAGE, Run
from tests.plugin.runs import close, generated


def test_the_splits_of_the_training_are_not_needed_to_decode(
    run: Run, digits: Path, tmp_path: Path
) -> None:
    several = tmp_path / "bin"
    shutil.copytree(digits / "bin", several)
    for file in several.glob("valid.*"):
        shutil.copy(file, several / file.name.replace("valid", "train1"))
    run(
        *("fairseq-train", several, "--user-dir", PACKAGE, "--arch", "bytenet_digits", "--cpu"),
        *("-s", "digits", "-t", "words", "--optimizer", "adam", "--criterion", "cross_entropy"),
        *("--batch-size", "32", "--upsample-primary", "1", "--max-update", "2", "--seed", "1"),
        *("--save-dir", tmp_path),
    )
    path, languages = tmp_path / "checkpoint_last.pt", ("-s", "digits", "-t", "words")
    found = [generated(run, data, path, *languages) for data in (several, digits / "bin")]
    assert close(*found)
