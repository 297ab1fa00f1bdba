"""What the README shows is what happens."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import fairseq_ssl
from fairseq_ssl.papers import PAPERS, markdown_table
from tests.conftest import ROOT, Run

README = (ROOT / "README.md").read_text(encoding="utf-8")


def transcript() -> list[tuple[str, str]]:
    """The commands of the first transcript, each with the output that is shown below it."""
    block = re.findall(r"```console\n(.*?)```", README, re.S)[0]
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    steps = []
    for part in parts:
        command = re.match(r"(?:.*\\\n)*.*\n", part)
        assert command is not None
        steps.append((command[0], part[command.end() :]))
    return steps


def test_the_transcript_can_be_replayed(run: Run, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    steps = transcript()
    assert len(steps) >= 6
    for command, shown in steps:
        words = ("bash", "-c", f"{{ {command} }} 2>&1")
        done = run(*words, cwd=tmp_path, REAL_COMMANDS="1")
        assert done.stdout == shown, command


def test_the_table_of_papers_is_the_one_in_the_code() -> None:
    table = README.partition("--format markdown -->\n")[2].partition("\n<!-- end -->")[0]
    assert table == markdown_table()


def test_the_package_docstring_names_everything_that_is_registered() -> None:
    named = fairseq_ssl.__doc__ or ""
    for paper in PAPERS:
        for name in (*paper.tasks, *paper.archs, *paper.criterions):
            assert re.search(rf"\b{name}\b", named), name


def test_every_verb_and_folder_stands_in_the_readme() -> None:
    from fairseq_ssl.cli.main import VERBS

    assert all(f"`fairseq-ssl {verb}`" in README for verb in VERBS)
    for path in (ROOT / "fairseq_ssl").iterdir():
        if not path.name.startswith("__pycache__") and path.name not in ("py.typed", "__main__.py"):
            assert path.name in README, path.name


def test_numbers_of_recipes_that_their_pages_lack_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import recipes

    assert list(recipes.faults()) == []
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    results = tmp_path / "examples/shape/results.json"
    results.write_text(results.read_text().replace("31.55", "41.55"))
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(recipes, "PAGE", tmp_path / "examples/README.md")
    missing, old = recipes.faults()
    assert missing == "examples/shape/results.json has 41.55; its README has not."
    assert "recipes.py --write" in old
