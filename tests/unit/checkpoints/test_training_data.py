"""Where a checkpoint's data lay."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.checkpoints.training_data import data_folder


@pytest.mark.parametrize(
    ("data", "folder"),
    [("bin", "bin"), ("first:second:third", "first"), (None, ".")],
)
def test_the_first_folder_of_the_training_has_the_dictionaries(data: Any, folder: str) -> None:
    task = {"_name": "language_modeling", "data": data}
    assert data_folder({"cfg": {"task": task}}) == Path(folder)
    args = Namespace(task="language_modeling", data=data)
    assert data_folder({"args": args}) == Path(folder)
