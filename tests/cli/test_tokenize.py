"""``fairseq-ssl tokenize``: streams, files, processes, rejected options."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.rewriting import given, shown

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
