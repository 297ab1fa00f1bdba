"""Kills and damages of runs that write a folder of parts, on this machine and on a Ray cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io.text_files import JOB, MANIFEST
from tests.cli.rewriting import refused
from tests.ray_clusters import cluster

__all__ = ["cluster"]

NOISE = ["noise", "clean", "--method", "characters:rate=0.5", "-o"]
PARTS = ["noisy/", "--part-size", "512K"]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of about 20 parts, and its noise in one file, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "clean"
    path.write_text("".join(f"w{n % 7} w{n % 11} a b c x{n % 1000} .\n" for n in range(500_000)))
    assert main([*NOISE, "whole"]) == 0
    return path


def noisy() -> bytes:
    """Return the text of the folder, which has only its parts and the manifest."""
    parts = json.loads(Path("noisy", MANIFEST).read_text())["parts"]
    names = [part["name"] for part in parts]
    assert sorted(path.name for path in Path("noisy").iterdir()) == sorted([*names, MANIFEST])
    return b"".join(Path("noisy", name).read_bytes() for name in names)


def finished() -> set[str]:
    """Return the names of the records of finished parts."""
    return {path.name for path in Path("noisy", JOB).glob("part-*.json")}


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == process:
            found.append(int(path.parent.name))
    return found


def kill_driver(process: subprocess.Popen[str]) -> None:
    process.kill()


def kill_worker(process: subprocess.Popen[str]) -> None:
    os.kill(children(process.pid)[-1], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [kill_driver, kill_worker])
def test_a_killed_run_resumes_by_part(
    kill: Callable[[subprocess.Popen[str]], None], text: Path
) -> None:
    command = [sys.executable, "-m", "fairseq_ssl", *NOISE, *PARTS, "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while len(finished()) < 3:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.001)
    kill(process)
    _, errors = process.communicate()
    if kill is kill_worker:
        assert process.returncode == 1
        assert "A worker process was killed" in errors
        assert "Traceback" not in errors
    before = finished()
    assert len(before) >= 3
    times = {path: path.stat().st_mtime_ns for path in Path("noisy", JOB).glob("part-*.json")}
    parts = [Path("noisy", json.loads(path.read_text())["files"][0]["name"]) for path in times]
    written = {part: part.stat().st_mtime_ns for part in parts}
    parts[0].write_bytes(parts[0].read_bytes()[:-1])
    assert main([*NOISE, *PARTS]) == 0
    assert [part for part in parts if part.stat().st_mtime_ns != written[part]] == parts[:1]
    assert noisy() == Path("whole").read_bytes()


def test_other_settings_and_two_runs(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NOISE, *PARTS]) == 0
    capsys.readouterr()
    assert "seed was 1 and is 2" in refused(capsys, 2, *NOISE, *PARTS, "--seed", "2")
    assert "part_size was" in refused(capsys, 2, *NOISE, "noisy/", "--part-size", "1M")
    assert "`shard`" not in refused(capsys, 2, *NOISE, "other", "--shard", "1/2")
    assert "Its name ends with /" in refused(capsys, 2, *NOISE, "other", "--shard", "1/2")
    assert noisy() == Path("whole").read_bytes()
    Path("noisy", MANIFEST).unlink()
    assert "noisy is not empty, and is not an output" in refused(capsys, 2, *NOISE, *PARTS)


@pytest.mark.slow
def test_a_lost_node_and_a_node_with_another_version(
    cluster: Any, text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()

    def kill() -> None:
        """Kill the node when a few parts are finished."""
        while len(finished()) < 3:
            time.sleep(0.001)
        cluster.remove_node(lost, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    assert main([*NOISE, *PARTS, "--executor", "ray", "--address", cluster.address]) == 0
    killer.join()
    assert noisy() == Path("whole").read_bytes()
    monkeypatch.setattr("fairseq_ssl.io.executors.__version__", "9.9")
    message = refused(capsys, 1, *NOISE, "other/", "--executor", "ray")
    assert "version 0.2.0 of fairseq_ssl. Expected 9.9. Install it on all machines." in message
    assert "--jobs is for one machine" in refused(
        capsys, 2, *NOISE, "other/", "--executor", "ray", "--jobs", "2"
    )
