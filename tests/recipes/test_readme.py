"""The tables of the README and of the recipes agree with the code and with the measured results."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
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
    (claims,) = re.findall(r"\nOf .* are not", (ROOT / "examples/README.md").read_text())
    assert claims in README


def test_the_package_docstring_names_everything_that_is_registered() -> None:
    named = fairseq_ssl.__doc__ or ""
    for paper in PAPERS:
        for name in (*paper.tasks, *paper.archs, *paper.criterions):
            assert re.search(rf"\b{name}\b", named), name


def test_results_on_real_data_come_before_synthetic_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import recipes

    real, synthetic = recipes.results_tables().split("### Toy data and synthetic errors")
    for paper in PAPERS:
        assert recipes.link(paper) in real
        for result in recipes.results_of(paper.key):
            row = f"| {result.baseline} | {result.method} | {' | '.join(result.ours)} |"
            assert row in (real if result.data == "real" else synthetic)
            assert result.data in recipes.HEADINGS
            assert not result.claim or result.reproduced in ("yes", "partly", "no")
    assert "BEA-2019 dev" not in synthetic
    assert "synthetic errors," not in real


def test_claims_are_compared_by_the_difference_of_method_and_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import recipes

    tested = recipes.Result(
        *("words", "BLEU", "none", "noise", ("9.50", "10.25"), ("3.1", "2.8")),
        claim="noise helps",
        reproduced="no",
    )
    synthetic = replace(tested, claim="toys help", data="synthetic")
    without_claim = replace(tested, claim="")
    monkeypatch.setattr(recipes, "PAPERS", PAPERS[:1])
    monkeypatch.setattr(recipes, "results_of", lambda key: [tested, synthetic, without_claim])
    assert recipes.claims_table().splitlines() == [
        "Of 1 claims tested on real data, 0 are reproduced, 0 partly, and 1 are not:",
        "",
        "| claim | recipe | setting | metric | difference, paper | difference, ours | reproduced |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| noise helps | [shape](shape/README.md#results) | words | BLEU | -0.3 | +0.75 | no |",
    ]


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
    assert missing == "41.55 is in examples/shape/results.json, but not on its pages."
    assert "recipes.py --write" in old


def test_every_package_is_in_the_page_on_architecture() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for path in (ROOT / "fairseq_ssl").iterdir():
        if not path.name.startswith("_") and path.name != "py.typed":
            assert path.stem in page, path.name
