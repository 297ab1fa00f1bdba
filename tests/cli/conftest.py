"""A correction server with rules in place of a model."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, until

FAKE = (sys.executable, str(ROOT / "tests/cli/fake_correction_server.py"))


class ServerProcess:
    """The process of a server, and what it has printed."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        command: Sequence[str] = FAKE,
        files: int | None = None,
        **variables: str,
    ) -> None:
        """Start the server.

        Args:
            folder: working directory.
            flags: options of the command.
            command: the command.
            files: max number of open files.
            variables: environment variables.
        """
        self.folder = folder
        self.out, self.err = folder / "out", folder / "err"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}

        def prepare() -> None:
            # background processes of a script, and their children, ignore Ctrl-C
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [*command, *flags],
                cwd=folder,
                stdout=out,
                stderr=err,
                env=environment,
                preexec_fn=prepare,
            )
        until(lambda: self.url != "" or self.process.poll() is not None, 120)

    @property
    def url(self) -> str:
        """The printed address, or an empty string."""
        found = re.search(r"^serving on (\S+)$", self.err.read_text(), re.MULTILINE)
        return found[1] if found else ""

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

    def start(*flags: Any, **options: Any) -> ServerProcess:
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        started.append(ServerProcess(folder, *map(str, flags), **options))
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
