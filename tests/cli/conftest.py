"""A correction server with rules in place of a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, until


class ServerProcess:
    """The process of a server, and what it has printed."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.out, self.err = folder / "out", folder / "err"
        script = ROOT / "tests/cli/fake_correction_server.py"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, script, *flags],
                cwd=folder,
                stdout=out,
                stderr=err,
                env=environment,
            )
        until(lambda: "serving on " in self.err.read_text() or self.process.poll() is not None)
        self.url = self.err.read_text().removeprefix("serving on ").strip()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def calls(self) -> list[list[str]]:
        """Return the lines of each call of the corrector."""
        return [json.loads(call) for call in self.out.read_text().splitlines()]

    def open_gate(self) -> None:
        """Let the corrector continue with lines that wait."""
        (self.folder / "gate").touch()

    def stop(self) -> None:
        self.open_gate()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start(*flags: Any) -> ServerProcess:
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        started.append(ServerProcess(folder, *map(str, flags)))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for requests that do not wait."""
    process = ServerProcess(tmp_path_factory.mktemp("server"), "--max-length", "1000")
    yield process
    process.stop()
