"""``fairseq-ssl truecase``: train, apply, undo."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.rewriting import given, shown

TEXT = "The cat saw us .\nWe like the cat\u2028and us .\n\nIn the US the Cat sat .\n"


@pytest.fixture
def model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    first, second = TEXT.split("\n\n")
    (tmp_path / "a").write_text(f"{first}\n", encoding="utf-8", newline="\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(f"\n{second}".encode()))
    shown(capsys, "truecase", "train", tmp_path / "a", tmp_path / "b.gz", "-o", tmp_path / "case")
    return tmp_path / "case"


def test_train(model: Path) -> None:
    lines = model.read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["cat (2/3) Cat (1)", "saw (1/1)", "us (2/3) US (1)"]
    signature = json.loads(model.with_name("case.json").read_text(encoding="utf-8"))
    assert (signature["lines"], signature["words"]) == (4, len(lines))


def test_round_trip(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, "The cat saw US .\n\n<BT> Us saw the Cat .\nThe UFO\n")
    cased = shown(capsys, "truecase", "apply", model)
    assert cased == "the cat saw US .\n\n<BT> us saw the Cat .\nthe UFO\n"
    given(monkeypatch, cased)
    undone = shown(capsys, "truecase", "undo", "-")
    assert undone == "The cat saw US .\n\n<BT> us saw the Cat .\nThe UFO\n"


def test_processes_do_not_change_the_output(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = model.with_name("text"), model.with_name("out.gz")
    file.write_text("The cat .\nLike\n" * 1100, encoding="utf-8")
    shown(capsys, "truecase", "apply", model, file, "-o", output, "--jobs", "2")
    assert gzip.decompress(output.read_bytes()).decode() == "the cat .\nlike\n" * 1100
