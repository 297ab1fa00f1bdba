"""Helpers for tests of commands that are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EAGER = "from fairseq_ssl.io import outputs; outputs.PAUSE = 0.0; "
"""Environment in which a command stores its state after each block."""


def kill(words: Sequence[str], output: str, setup: str = "") -> int:
    """SIGKILL a command after it has stored the state of `output`. Return the size of the output.

    `setup` is Python code that runs before the command.
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
    """End a command in this process as a kill would: it catches no GeneratorExit."""
    raise GeneratorExit


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of all files in a folder."""
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return {str(one.relative_to(path.parent)): one.read_bytes() for one in found}


def kill_worker() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_driver() -> None:
    """Kill the process that has started this worker, or this process if it is not a worker."""
    parent = multiprocessing.parent_process()
    os.kill(parent.pid or 0 if parent else os.getpid(), signal.SIGKILL)


def is_stage(work: Any, stage: str) -> bool:
    """Return True for the function of a stage, which is a partial function with its name."""
    return stage in getattr(work, "args", ())


@dataclass(frozen=True)
class KillOnce:
    """Picklable function of a stage that calls `kill` before an item, unless `flag` exists."""

    work: Callable[[Any], Any]
    stage: str
    index: int
    kill: Callable[[], None]
    flag: Path

    def __call__(self, item: Any) -> Any:
        """Call the function, or kill."""
        is_here = is_stage(self.work, self.stage) and item[0] == self.index
        if is_here and not self.flag.exists():
            self.flag.touch()
            self.kill()
        return self.work(item)


def wrap_work(executor: Any, wrap: Callable[[Any], Any]) -> None:
    """Replace each function that an executor class maps by `wrap` of the function."""
    original = executor.imap

    def imap(self: Any, work: Any, items: Any) -> Any:
        return original(self, wrap(work), items)

    executor.imap = imap


def run_killed(
    words: Sequence[str],
    stage: str,
    index: int,
    kill: Callable[[], None],
    jobs: int = 2,
    setup: str = "pass",
) -> str:
    """Run a command in which `kill` is called. Return its errors.

    `setup` is Python code that runs before the command.
    """
    run = (
        "from pathlib import Path; from fairseq_ssl.cli.main import main; "
        "from fairseq_ssl.io import blocks; from fairseq_ssl.io.executors import LocalExecutor; "
        f"from tests.cli.killing import KillOnce, kill_driver, kill_worker, wrap_work; {setup}; "
        f"kill = lambda work: KillOnce(work, {stage!r}, {index}, {kill.__name__}, Path('killed')); "
        "wrap_work(LocalExecutor, kill); "
        f"raise SystemExit(main({[*words, '--jobs', str(jobs)]}))"
    )
    Path("killed").unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", run], env=environment, capture_output=True, text=True
    )
    assert Path("killed").exists()
    assert done.returncode == (-signal.SIGKILL if kill is kill_driver else 1), done.stderr
    return done.stderr
