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


ALWAYS = {"passes": "pass pass pass pass", "fails": "fail fail fail fail"}
STOCK = ALWAYS | {
    "gained": "fail fail fail fail",
    "lost": "pass pass pass pass",
    "often lost": "pass pass pass pass",
    "flaky": "fail pass fail pass",
    "once": "pass pass pass pass",
}
PLUG_IN = ALWAYS | {
    "gained": "pass pass pass pass",
    "lost": "skip skip skip skip",
    "often lost": "fail pass fail fail",
    "flaky": "pass fail fail pass",
    "once": "fail pass pass pass",
}
OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def write(folder: Path, variant: str, table: dict[str, str]) -> None:
    """Write run 0 with all tests, and repeats."""
    for run in range(4):
        lines = [f"{OUTCOMES[row.split()[run]]}\ta.py::{test}\n" for test, row in table.items()]
        (folder / f"{variant}.{run}.tsv").write_text("".join(lines))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path, "stock", STOCK)
    write(tmp_path, "unprotected", STOCK | {"gained": "pass pass pass pass"})
    write(tmp_path, "plug-in", PLUG_IN)
    return tmp_path


def test_differences_are_classified_by_their_repeats(
    suite: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite.main([str(results)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "               passed  skipped   failed",
        "stock               4        0        3",
        "unprotected         5        0        2",
        "plug-in             3        1        3",
        "plug-in against stock: 1 gained, 2 lost, 2 flaky",
        "  flaky   passes 2 -> 1 of 3  a.py::flaky",
        "  flaky   passes 3 -> 3 of 3  a.py::once",
        "  gained  passes 0 -> 3 of 3  a.py::gained",
        "  lost    passes 3 -> 0 of 3  a.py::lost",
        "  lost    passes 3 -> 1 of 3  a.py::often lost",
        "plug-in against unprotected: 0 gained, 2 lost, 2 flaky",
        "  flaky   passes 2 -> 1 of 3  a.py::flaky",
        "  flaky   passes 3 -> 3 of 3  a.py::once",
        "  lost    passes 3 -> 0 of 3  a.py::lost",
        "  lost    passes 3 -> 1 of 3  a.py::often lost",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--failing"], ["fails", "flaky", "gained"]),
        (["--differing", "stock"], ["flaky", "gained", "lost", "often lost", "once"]),
        (["--differing", "unprotected"], ["flaky", "lost", "often lost", "once"]),
        (["--differing", "plug-in"], ["flaky", "gained", "lost", "often lost", "once"]),
    ],
)
def test_only_differing_tests_are_repeated(
    suite: Any,
    results: Path,
    options: list[str],
    expected: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert suite.main([str(results), *options]) == 0
    assert capsys.readouterr().out.splitlines() == [f"a.py::{name}" for name in expected]


def test_unprotected_runs_only_tests_that_fail_in_stock(suite: Any, tmp_path: Path) -> None:
    (tmp_path / "stock.0.tsv").write_text("passed\ta.py::one\nfailed\ta.py::two\n")
    (tmp_path / "unprotected.0.tsv").write_text("passed\ta.py::two\n")
    assert suite.read_runs(tmp_path) == {
        "stock": [{"a.py::one": "passed", "a.py::two": "failed"}],
        "unprotected": [{"a.py::one": "passed", "a.py::two": "passed"}],
        "plug-in": [],
    }


def test_nothing_is_lost_if_every_difference_is_a_gain(suite: Any, tmp_path: Path) -> None:
    kept = ("passes", "fails", "gained", "flaky")
    for variant, table in (("stock", STOCK), ("unprotected", STOCK), ("plug-in", PLUG_IN)):
        write(tmp_path, variant, {name: table[name] for name in kept})
    assert suite.main([str(tmp_path)]) == 0


def test_a_file_that_only_the_plug_in_cannot_import_is_lost(suite: Any) -> None:
    stock = [{"a.py::one": "passed"}] * 2
    plug_in = [{"a.py": "failed"}] * 2
    assert [each.kind for each in suite.compare(stock, plug_in)] == ["lost"]


def test_a_difference_needs_repeats_on_both_sides(suite: Any) -> None:
    stock, plug_in = {"a.py::one": "passed"}, {"a.py::one": "failed"}
    with pytest.raises(ValueError, match="the same number of repeats"):
        suite.compare([stock], [plug_in])
    assert suite.compare([stock], [stock]) == []


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
    words[-1] = "some.tsv"
    subprocess.run([*words, "--only", "only.txt"], cwd=tmp_path, env=os.environ | path, check=False)
    found = suite.read_results(tmp_path / "some.tsv")
    assert found == {"test_none.py": "failed", "test_some.py::test_values[a b]": "passed"}


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 0), (5, 0), (2, 2), (4, 2)])
def test_a_run_may_have_failures_or_no_tests(tmp_path: Path, code: int, expected: int) -> None:
    """pytest exits with 1 if tests fail, and with 5 if none is selected."""
    lines = (ROOT / "scripts/test_fairseq_suite.sh").read_text().splitlines(keepends=True)
    start = lines.index("run() {\n")
    function = "".join(lines[start : lines.index("}\n", start) + 1])
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text(f"#!/bin/sh\nexit {code}\n")
    python.chmod(0o755)
    settings = "set -euo pipefail; root=. suite=. results=.\n"
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    words = ["bash", "-c", f"{settings}{function}run unprotected 0 --only failing.txt tests"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == expected
    assert (tmp_path / "unprotected.0.done").exists() == (expected == 0)
