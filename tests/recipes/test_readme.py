"""The tables of the README and of the recipes agree with the code and with the measured results."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from papers import PAPERS

import fairseq_ssl
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_numbers_in_the_table_of_results_are_on_the_pages_of_their_recipes() -> None:
    table = README.partition("\n## Results\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert rows
    for row in rows:
        ((link, key),) = re.findall(r"(\(examples/(\w+)/README\.md#results\))", row)
        (paper,) = (paper for paper in PAPERS if paper.key == key)
        pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in paper.pages)
        numbers = re.findall(r"\d+\.\d\d", row.replace(link, ""))
        assert numbers
        assert all(number in pages for number in numbers), row


def test_the_package_docstring_names_everything_that_is_registered() -> None:
    named = fairseq_ssl.__doc__ or ""
    for paper in PAPERS:
        for name in (*paper.tasks, *paper.archs, *paper.criterions):
            assert re.search(rf"\b{name}\b", named), name


def test_results_on_real_data_come_before_synthetic_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import recipes

    real, synthetic = recipes.table().split("### Toy data and synthetic errors")
    assert all(f"]({paper.key}/README.md#results)" in real for paper in PAPERS)
    assert "learner text" not in synthetic
    assert "synthetic errors," not in real
    results = [one for paper in PAPERS for one in recipes.results_of(paper.key)]
    assert {one.get("data", "real") for one in results} == set(recipes.HEADINGS)
    assert all(f"| {one['what']} |" in real + synthetic for one in results)


def test_numbers_missing_in_a_recipe_page_are_reported(
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
    assert missing == "examples/shape/results.json has 41.55. Its pages do not."
    assert "recipes.py --write" in old


def test_every_package_is_in_the_page_on_architecture() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for path in (ROOT / "fairseq_ssl").iterdir():
        if not path.name.startswith("_") and path.name != "py.typed":
            assert path.stem in page, path.name
