"""The comparison of fairseq's own tests with and without the plug-in."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("fairseq_suite")


ALWAYS = {"passes": "pppp", "fails": "ffff"}
STOCK = {**ALWAYS, "gained": "ffff", "lost": "pppp", "often lost": "pppp", "flaky": "fpfp"}
PLUG_IN = {**ALWAYS, "gained": "pppp", "lost": "ssss", "often lost": "fpff", "flaky": "pffp"}
"""Outcomes of a run with all tests and of three repeats."""
OUTCOMES = {"p": "passed", "f": "failed", "s": "skipped"}


def write(folder: Path, variant: str, table: dict[str, str]) -> None:
    for run in range(4):
        lines = [f"{OUTCOMES[row[run]]}\ta.py::{test}\n" for test, row in table.items()]
        (folder / f"{variant}.{run}.tsv").write_text("".join(lines))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path, "stock", STOCK)
    write(tmp_path, "unprotected", STOCK | {"gained": "pppp"})
    write(tmp_path, "plug-in", PLUG_IN)
    return tmp_path


def test_differences_are_classified_by_their_repeats(
    suite: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite.main([str(results), "--differing", "unprotected"]) == 0
    repeated = [f"a.py::{name}" for name in ("flaky", "lost", "often lost")]
    assert capsys.readouterr().out.splitlines() == repeated
    assert suite.main([str(results)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "               passed  skipped   failed",
        "stock               3        0        3",
        "unprotected         4        0        2",
        "plug-in             3        1        2",
        "plug-in against stock: 1 gained, 2 lost, 1 flaky",
        "  flaky   passes 2 -> 1 of 3  a.py::flaky",
        "  gained  passes 0 -> 3 of 3  a.py::gained",
        "  lost    passes 3 -> 0 of 3  a.py::lost",
        "  lost    passes 3 -> 1 of 3  a.py::often lost",
        "plug-in against unprotected: 0 gained, 2 lost, 1 flaky",
        "  flaky   passes 2 -> 1 of 3  a.py::flaky",
        "  lost    passes 3 -> 0 of 3  a.py::lost",
        "  lost    passes 3 -> 1 of 3  a.py::often lost",
    ]


TESTS = """
import pytest
@pytest.fixture
def broken(): raise OSError
@pytest.fixture
def breaks(): yield; raise OSError
def test_passes(): pass
def test_fails(): assert False
def test_needs(broken): pass
def test_ends(breaks): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.parametrize("text", ["a b", "tab\\t"])
def test_values(text): pass
def test_seed():
    import random
    assert random.random() == random.Random(7).random()
"""


def test_outcomes_are_recorded(suite: Any, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_none.py").write_text("import no_such_package\n")
    words = [sys.executable, "-m", "pytest", "-p", "fairseq_suite", "-p", "no:cacheprovider"]
    words += ["--continue-on-collection-errors", "--data-seed", "7", "--results", "all.tsv"]
    path = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "scripts"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",  # which can be for plug-ins
    }
    subprocess.run(words, cwd=tmp_path, env=os.environ | path, capture_output=True, check=False)
    found = suite.read_results(tmp_path / "all.tsv")
    assert found == {
        "test_none.py": "failed",
        "test_some.py::test_passes": "passed",
        "test_some.py::test_fails": "failed",
        "test_some.py::test_needs": "failed",
        "test_some.py::test_ends": "failed",
        "test_some.py::test_skipped": "skipped",
        "test_some.py::test_seed": "passed",
        "test_some.py::test_values[a b]": "passed",
        "test_some.py::test_values[tab\\t]": "passed",
    }
    (tmp_path / "only.txt").write_text("test_some.py::test_values[a b]\ntest_none.py::gone\n")
    subprocess.run([*words, "--only", "only.txt"], cwd=tmp_path, env=os.environ | path, check=False)
    found = suite.read_results(tmp_path / "all.tsv")
    assert found == {"test_none.py": "failed", "test_some.py::test_values[a b]": "passed"}
