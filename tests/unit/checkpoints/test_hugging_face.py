"""Folders of language models that are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.checkpoints.hugging_face import read_config
from fairseq_ssl.errors import DataError


def test_other_folder_is_rejected(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError, match=str(folder)):
            read_config(folder)
