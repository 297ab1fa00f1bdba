"""Helpers for tests of verbs that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

EAGER = "from fairseq_ssl.io import outputs; outputs.PAUSE = 0.0; "
"""Environment in which a verb stores its state after each block."""


def kill(words: Sequence[str], output: str, setup: str = "") -> int:
    """SIGKILL a verb after it has stored the state of `output`. Return the size of the output.

    `setup` is Python code that runs before the verb.
    """
    note = Path(f"{output}.progress")
    before = note.stat().st_mtime_ns if note.exists() else 0
    run = f"{EAGER}{setup}from fairseq_ssl.cli.main import main; main({[*words]})"
    process = subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.DEVNULL)
    while not note.exists() or note.stat().st_mtime_ns == before:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.001)
    process.kill()
    process.wait()
    size: int = json.loads(note.read_text())["sizes"][0]
    return size


def killed(*_: object) -> None:
    """End a verb in this process as a kill would: it catches no GeneratorExit."""
    raise GeneratorExit


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of all files in a folder."""
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return {str(one.relative_to(path.parent)): one.read_bytes() for one in found}
