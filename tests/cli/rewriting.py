"""Helpers for tests of commands that rewrite lines: run one on stdin and return its output."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main


def given(monkeypatch: pytest.MonkeyPatch, text: bytes | str) -> None:
    """Set the content of stdin."""
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Return the output of a command that succeeds."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], code: int, *words: str | Path) -> str:
    """Return the error of a command with this exit code and no output."""
    capsys.readouterr()
    assert _exit_code([str(word) for word in words]) == code
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err


def _exit_code(words: list[str]) -> int | str | None:
    """Run a command. Return its exit code, also if argparse exits."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code
