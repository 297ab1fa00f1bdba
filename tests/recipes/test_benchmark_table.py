"""The table of benchmarks matches the results, and each row is a valid command."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "scripts/benchmarks"


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
    for entry in run.SUITE:
        notes = dict.fromkeys(run.keys(entry, ""), entry.note)
        for key, note in (*notes.items(), (f"{entry.key}@cuda", entry.gpu_note)):
            found = results.get(key, {"goal": None})
            goal = found["goal"]
            reached = goal is None or max([found["ratio"], *found["spread"]]) >= goal
            assert reached or note, f"the ratio of {key} is below its goal, which needs a note"


def test_options_of_each_row_exist(run: Any) -> None:
    for entry in run.SUITE:
        text = (FOLDER / f"{entry.script}.py").read_text()
        assert not ("gpu=False" in text and entry.gpu), entry.key
        names = re.findall(r"^(?:from|import) (\w+)", text, re.M)
        shared = [FOLDER / f"{name}.py" for name in names]
        text += "".join(path.read_text() for path in shared if path.exists())
        for word in shlex.split(entry.options):
            if word.startswith("--") and " " not in word:
                assert f'"{word}"' in text, (entry.key, word)


def test_a_measured_row_is_written_to_the_table(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the user are relative to the current folder."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    machine = {"device": "some CPU", "cores": 2, "python": "3.11", "torch": "2.13"}
    found = {"ratio": 1.5, "spread": [1, 2], "machine": machine, "rates": [], "goal": None}
    (scripts / "probe.py").write_text(
        f"import json, sys; open(sys.argv[2]); print(json.dumps({found | {'goal_reached': None}}))"
    )
    entry = run.Entry("probe", "a probe", "probe", "--model MODEL", note="A toy.")
    monkeypatch.setattr(run, "HERE", scripts)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(run, "TABLE", tmp_path / "README.md")
    monkeypatch.setattr(run, "SUITE", [entry])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pt").touch()
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # replaced by the benchmarks
    given = ["--given", "MODEL=m.pt", "--remark"]
    for words in ([*given, "An old machine."], ["--second", *given, "A new one."]):
        monkeypatch.setattr(sys, "argv", ["run.py", "probe", *words])
        run.main()
    table = (tmp_path / "README.md").read_text()
    assert (
        "| a probe | `probe --model MODEL` | 1.5, 1.5 | 1 to 2, 1 to 2 |  | a, a | 1, 2, 3 |"
        in table
    )
    assert "1. An old machine.\n2. A new one.\n3. A toy.\n" in table
