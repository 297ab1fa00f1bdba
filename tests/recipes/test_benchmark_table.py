"""The table of benchmarks matches the results, and each row is a valid command."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from typing import Any

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "scripts/benchmarks"
MACHINE = {"device": "some CPU", "cores": 2, "python": "3.11", "torch": "2.13"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("run")


def test_table_matches_results(run: Any) -> None:
    results = json.loads((FOLDER / "results.json").read_text())
    assert (FOLDER / "README.md").read_text() == run.table(results)
    keys = [entry.key for entry in run.SUITE]
    assert len(set(keys)) == len(keys)
    assert {key.partition("@")[0] for key in results} <= set(keys)
    reached = {key: found["goal_reached"] for key, found in results.items()}
    missed = [entry for entry in run.SUITE if reached.get(entry.key) is False]
    assert all(entry.note for entry in missed), "a missed goal needs a note"


def test_options_of_each_row_exist(run: Any) -> None:
    for entry in run.SUITE:
        text = (FOLDER / f"{entry.script}.py").read_text()
        names = re.findall(r"^(?:from|import) (\w+)", text, re.M)
        shared = [FOLDER / f"{name}.py" for name in names]
        text += "".join(path.read_text() for path in shared if path.exists())
        for word in shlex.split(entry.options):
            if word.startswith("--") and " " not in word:
                assert f'"{word}"' in text, (entry.key, word)


def test_row_has_goal_machine_and_note(run: Any) -> None:
    found = {"ratio": 1.2345, "spread": [1.1, 1.3], "machine": MACHINE, "rates": [], "remark": ""}
    results = {
        "shape_training": {**found, "goal": 0.99, "goal_reached": True},
        "shape_training@cuda": {
            **{**found, "machine": {**MACHINE, "device": "some GPU"}},
            **{"goal": 0.99, "goal_reached": True},
        },
        "shape_memory": {**found, "goal": None, "goal_reached": None},
        "ctranslate2_export": {**found, "goal": 5.0, "goal_reached": False},
        "ctranslate2_export.int8": {**found, "goal": 5.0, "goal_reached": False, "remark": "busy"},
    }
    table = run.table(results)
    cpu, gpu = (
        [line for line in part.splitlines() if line.startswith("| ")]
        for part in table.split("## On a GPU")
    )
    assert "| 1.23 (a) | 1.1 to 1.3 | 0.99 | 0.99 to 1.01 (thesis, 6.3.3) |" in cpu[2]
    assert any("| 1.1 to 1.3 |  |  |" in line for line in cpu)
    missed = [line for line in cpu if "missed" in line]
    assert all("| 5, missed (1) |" in line for line in missed)
    assert len(missed) == 2
    assert len(gpu) == 3, "a header and a row"
    assert "| 1.23 (c) | 1.1 to 1.3 | 0.99 |" in gpu[2]
    assert "- (b): some CPU, 2 cores, Python 3.11, torch 2.13, busy" in table
    assert "- (c): some GPU, 2 cores, Python 3.11, torch 2.13" in table
    assert table.count("not measured") == len(run.SUITE) - 4


def test_missed_goal_on_a_gpu_has_a_note_of_its_own(run: Any) -> None:
    found: dict[str, Any] = {
        "ratio": 1.2,
        "spread": None,
        "machine": MACHINE,
        "rates": [],
        "remark": "",
    }
    missed = {**found, "goal": 5.0, "goal_reached": False}
    table = run.table({"ctranslate2_export": missed, "ctranslate2_export@cuda": missed})
    assert "| 5, missed (1) |" in table
    assert "| 5, missed (2) |" in table
    assert "\n2. Not profiled yet.\n" in table
    gpu_only = run.table({"ctranslate2_export@cuda": missed})
    assert gpu_only.count("not measured") == len(run.SUITE) - 1


def test_row_is_skipped_without_its_files(run: Any) -> None:
    (entry,) = [entry for entry in run.SUITE if entry.key == "back_translation"]
    assert run.filled(entry, {"MODEL": "m.pt"}) is None
    words = run.filled(entry, {"MODEL": "m.pt", "DATA": "bin", "TEXT": "t.en"})
    assert words[:5] == ["back_translation.py", "--model", "m.pt", "--data-dir", "bin"]
