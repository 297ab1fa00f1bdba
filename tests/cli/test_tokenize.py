"""``fairseq-ssl tokenize``: streams, files, processes, training of a truecaser and truecasing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.rewriting import given, shown

TEXT = "It's 3.5|4, isn't it?\n\nA well-known\u2028\u0085fact.\r\nlast"
TOKENS = "It &apos;s 3.5 &#124; 4 , isn &apos;t it ?\n\nA well-known fact .\nlast\n"

CASED = "The cat saw us .\nWe like the cat\u2028and us .\n\nIn the US the Cat sat .\n"


@pytest.fixture
def model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A truecasing model of `CASED`."""
    (tmp_path / "cased.gz").write_bytes(gzip.compress(CASED.encode()))
    shown(capsys, "tokenize", tmp_path / "cased.gz", "--train-truecase", tmp_path / "case")
    return tmp_path / "case"


def test_stdin_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, TEXT)
    assert shown(capsys, "tokenize", "--moses", "en") == TOKENS
    given(monkeypatch, "“Isn't” it well-known?\n")
    words = ("--aggressive-dash-splits", "--no-escape", "--normalize")
    wanted = '" Isn \'t " it well @-@ known ?\n'
    assert shown(capsys, "tokenize", "-", "--moses", "en", *words) == wanted


def test_files_and_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, output = tmp_path / "text.gz", tmp_path / "out" / "tokens.gz"
    file.write_bytes(gzip.compress((TEXT + "\n").encode() * 600))
    shown(capsys, "tokenize", file, "--moses", "en", "-o", output, "--jobs", "2")
    assert gzip.decompress(output.read_bytes()).decode() == TOKENS * 600
    signature = json.loads(output.with_name("tokens.gz.json").read_text(encoding="utf-8"))
    assert signature["method"] == "tokenize"
    assert (signature["moses"], signature["escape"], signature["dashes"]) == ("en", True, False)


def test_training_of_a_truecaser(model: Path) -> None:
    lines = model.read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["cat (2/3) Cat (1)", "saw (1/1)", "us (2/3) US (1)"]
    signature = json.loads(model.with_name("case.json").read_text(encoding="utf-8"))
    assert (signature["lines"], signature["words"]) == (4, len(lines))


def test_training_on_untokenized_text(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, CASED.replace(" .", "."))
    again = model.with_name("again")
    shown(capsys, "tokenize", "--moses", "en", "--train-truecase", again, "--jobs", "2")
    assert again.read_text(encoding="utf-8") == model.read_text(encoding="utf-8")
    assert json.loads(model.with_name("again.json").read_text())["moses"] == "en"


def test_truecasing_and_its_inverse(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, "The cat saw US .\n\n<BT> Us saw the Cat .\nThe UFO\n")
    cased = shown(capsys, "tokenize", "--truecase", model)
    assert cased == "the cat saw US .\n\n<BT> us saw the Cat .\nthe UFO\n"
    given(monkeypatch, cased)
    undone = shown(capsys, "postprocess", "-", "--detruecase")
    assert undone == "The cat saw US .\n\n<BT> us saw the Cat .\nThe UFO\n"
    given(monkeypatch, "The cat. Saw it?\n")
    assert shown(capsys, "tokenize", "--truecase", model, "--moses", "en") == "the cat . saw it ?\n"


def test_truecasing_by_several_processes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, output = model.with_name("text"), model.with_name("out.gz")
    file.write_text("The cat .\nLike\n" * 1100, encoding="utf-8")
    shown(capsys, "tokenize", file, "--truecase", model, "-o", output, "--jobs", "2")
    assert gzip.decompress(output.read_bytes()).decode() == "the cat .\nlike\n" * 1100
