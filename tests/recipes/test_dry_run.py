"""Commands of all recipes, with spaces in every path."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairseq_ssl.papers import PAPERS
from tests.conftest import ROOT
from tests.recipes.recipe import called, printed


@pytest.mark.parametrize("recipe", [paper.key for paper in PAPERS])
@pytest.mark.slow
def test_a_path_with_a_space_is_one_word(recipe: str, tmp_path: Path) -> None:
    """The checkout, WORK and DATA_DIR are in folders with this name."""
    folder = tmp_path / "first second"
    for name in ("common", recipe):
        shutil.copytree(ROOT / "examples" / name, folder / "examples" / name)
    settings = {"SCALE": "small", "WORK": f"{folder}/work", "DATA_DIR": f"{folder}/data"}
    settings |= {"SEEDS": "1", "FOLDS": "0"}
    for step in sorted((folder / "examples" / recipe).glob("[1-9]_*.sh")):
        commands = printed(step.parent, step.stem.partition("_")[2], settings)
        assert commands
        words = {word for command in commands for word in command}
        assert not [word for word in words if word.endswith("/first") or word.startswith("second/")]


def test_links_to_a_relative_data_folder_have_an_absolute_target() -> None:
    """The target is relative to the folder of the link, DATA_DIR to the current folder."""
    settings = {"SCALE": "paper", "DATA_DIR": "data"}
    links = called(printed(ROOT / "examples/wmt20", "prepare", settings), "ln")
    assert {Path(words[-2]).parent for words in links} == {Path.cwd() / "data"}
