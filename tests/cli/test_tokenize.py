"""``fairseq-ssl tokenize``: streams, files, processes, rejected options."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.rewriting import given, refused, shown

TEXT = "It's 3.5|4, isn't it?\n\nA well-known\u2028\u0085fact.\r\nlast"
TOKENS = "It &apos;s 3.5 &#124; 4 , isn &apos;t it ?\n\nA well-known fact .\nlast\n"


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


def test_bad_bytes_are_reported_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, b"good\nb\xe4d\n")
    output = tmp_path / "out"
    message = refused(capsys, 1, "tokenize", "--moses", "de", "-o", output)
    assert "stdin:2 is not valid UTF-8: byte 2 of the line is 0xe4" in message
    assert not list(tmp_path.iterdir())


def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text"
    file.write_text("a\n", encoding="utf-8")
    words = ("tokenize", file, "--moses", "en")
    assert "--moses" in refused(capsys, 2, "tokenize", file)
    assert "--jobs: 0 is out of range" in refused(capsys, 2, *words, "--jobs", "0")
    assert "is an input" in refused(capsys, 2, *words, "-o", file)
    for name, output in (("out.tmp", "out"), ("out.tmp.gz", "out.gz"), ("out.json", "out")):
        both = (tmp_path / name, "-o", tmp_path / output)
        message = refused(capsys, 2, "tokenize", *both, "--moses", "en")
        assert f"{name} would be overwritten" in message
    assert "does not exist" in refused(capsys, 1, "tokenize", tmp_path / "x", "--moses", "en")
    assert file.read_text(encoding="utf-8") == "a\n"
