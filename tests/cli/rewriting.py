"""What tests of verbs that rewrite lines share: to run one on stdin, and see what came out."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main


def given(monkeypatch: pytest.MonkeyPatch, text: bytes | str) -> None:
    """Let stdin hold this."""
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Return what a command that does well printed."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], code: int, *words: str | Path) -> str:
    """Return the message of a command that ends with this exit code, and printed nothing else."""
    capsys.readouterr()
    assert _exit_code([str(word) for word in words]) == code
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err


def _exit_code(words: list[str]) -> int | str | None:
    """Run a command; argparse ends it where it refuses, and otherwise it returns."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code
