"""The table of benchmarks matches the results, and each row is a valid command."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import ROOT

FOLDER = ROOT / "scripts/benchmarks"
MACHINE = {"device": "some CPU", "cores": 2, "python": "3.11", "torch": "2.13"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("run")


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the command line. The benchmarks replace sys.excepthook, which is restored."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    return lambda *words: monkeypatch.setattr(sys, "argv", ["script", *map(str, words)])


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
    script = str(FOLDER / "back_translation.py")
    assert words[:5] == [script, "--model", "m.pt", "--data-dir", "bin"]


def test_files_are_relative_to_the_current_folder(
    run: Any, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    found = {"ratio": 1.5, "spread": [1, 2], "machine": MACHINE, "rates": [], "goal": None}
    (scripts / "probe.py").write_text(
        f"import json, sys; open(sys.argv[2]); print(json.dumps({found | {'goal_reached': None}}))"
    )
    monkeypatch.setattr(run, "HERE", scripts)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(run, "TABLE", tmp_path / "README.md")
    monkeypatch.setattr(run, "SUITE", [run.Entry("probe", "a probe", "probe", "--model MODEL")])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pt").touch()
    options("probe", "--given", "MODEL=m.pt")
    run.main()
    assert "| a probe | `probe --model MODEL` | 1.5 (a) |" in (tmp_path / "README.md").read_text()


def test_scripts_of_cpus_run_only_on_cpus(
    run: Any, options: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for entry in run.SUITE:
        if "gpu=False" in (FOLDER / f"{entry.script}.py").read_text():
            assert not entry.gpu, entry.key
    keys = [entry.key for entry in run.chosen([], True, "cuda")]
    assert {"shape_training", "edit_decoding", "back_translation"} < set(keys)
    assert not any(key.startswith(("growth", "noise", "edit_round")) for key in keys)
    assert len(run.chosen([], True, "cpu")) == len(run.SUITE)
    options("noise.direct", "shape_training", "--device", "cuda")
    with pytest.raises(SystemExit):
        run.arguments()
    assert "noise.direct cannot use a GPU" in capsys.readouterr().err
    options("--device", "cuda")
    with pytest.raises(SystemExit):
        importlib.import_module("rerank_search").main()
    assert "invalid choice: 'cuda'" in capsys.readouterr().err


def test_machine_is_the_device_of_the_settings(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = importlib.import_module("harness")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "some GPU")
    for device in ("cpu", "cuda"):
        settings = {"device": device}
        comparison = harness.Comparison("a", "b", "c", "tokens/s", None, settings, [1.0])
        name = comparison.report()["machine"]["device"]
        assert (name == "some GPU") == (device == "cuda")


def test_figure_is_an_output(
    run: Any,
    options: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edit_decoding = importlib.import_module("edit_decoding")
    for name in ("tagger", "transformer"):
        monkeypatch.setattr(edit_decoding, name, lambda args: (None, lambda: args.sentences))
    monkeypatch.setattr(edit_decoding, "limits", lambda device: (1e9, 1e9))
    drawn: list[Path] = []
    monkeypatch.setattr(edit_decoding, "_draw", lambda lengths, found, path: drawn.append(path))
    options("--figure", tmp_path / "decoding.png")
    edit_decoding.main()
    assert drawn == [tmp_path / "decoding.png"]
    assert '"batch": 1' in capsys.readouterr().out


def test_back_translation_is_compared_with_stock_fairseq(
    run: Any, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_translation = importlib.import_module("back_translation")
    called: list[list[str]] = []
    monkeypatch.setattr(
        back_translation, "run", lambda words, log, **_: called.append(list(map(str, words)))
    )
    sizes = {"arch": "transformer_tiny", "vocabulary": 50, "sentences": 2, "length": 3}
    files = {"model": None, "data_dir": None, "compute_type": "int8", "max_tokens": 100}
    args = argparse.Namespace(**sizes, **files, device="cpu")
    model, text = back_translation.random_model(tmp_path, args)
    for command in back_translation.commands(tmp_path, model, text, args):
        assert command() == 2
    assert Path(called[1][0]).name == "fairseq-generate"
    assert "--user-dir" not in called[1]
    args.arch = "shape_transformer_tiny"
    model, text = back_translation.random_model(tmp_path, args)
    with pytest.raises(SystemExit, match="shape_transformer_tiny, needs the plug-in"):
        back_translation.commands(tmp_path, model, text, args)
