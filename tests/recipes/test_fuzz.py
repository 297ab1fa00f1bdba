"""A few hostile inputs for every command. scripts/fuzz/fuzz.py tries thousands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fairseq_ssl.cli.main import COMMANDS
from tests.conftest import ROOT, environment

WITHOUT_FILES = {"completion", "doctor", "user-dir"}
WITHOUT_END = {"serve"}
"""Reads the files of `correct`."""
SCRIPT = ROOT / "scripts/fuzz/fuzz.py"


@pytest.mark.slow
def test_no_command_prints_a_traceback() -> None:
    words = [sys.executable, str(SCRIPT), "--inputs", "3", "--first", "500"]
    ended = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    lines = ended.stdout.strip().splitlines()
    for command in COMMANDS.keys() - WITHOUT_FILES - WITHOUT_END:
        assert any(line.startswith(command) for line in lines), command
    assert all("3 inputs, 0 kinds of findings" in line for line in lines)
