"""The data folder of a checkpoint, which the user has to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.checkpoints.files import training_data
from fairseq_ssl.errors import UsageError

STATE = {"cfg": {"task": {"_name": "translation", "source_lang": "de", "target_lang": "en"}}}


def test_dictionaries_of_the_folder(tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\n")
    data = training_data(STATE, tmp_path)
    assert data.dictionaries == (tmp_path / "dict.de.txt", tmp_path / "dict.en.txt")


def test_folder_in_the_checkpoint_is_not_read(tmp_path: Path) -> None:
    task = {**STATE["cfg"]["task"], "data": str(tmp_path)}
    with pytest.raises(UsageError, match=r"Set `data_dir` .* is not read"):
        training_data({"cfg": {"task": task}}, None)
