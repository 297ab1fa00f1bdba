"""Kills and damages of runs that write a folder of parts, on this machine and on a Ray cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io.parts import JobFolder
from fairseq_ssl.io.text_files import JOB, MANIFEST
from tests.cli.killing import kill_driver, kill_worker, run_killed
from tests.cli.rewriting import refused
from tests.cli.test_learned_filter import FIT, VECTORS, here
from tests.ray_clusters import cluster

__all__ = ["cluster", "here"]

NOISE = ["noise", "clean", "--method", "characters:rate=0.5", "-o"]
PARTS = ["noisy/", "--part-size", "256K"]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of about 16 parts, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "clean"
    path.write_text("".join(f"w{n % 7} w{n % 11} a b c x{n % 1000} .\n" for n in range(200_000)))
    return path


def joined(folder: str) -> bytes:
    """Return the text of the folder, which has only its parts and the manifest."""
    parts = json.loads(Path(folder, MANIFEST).read_text())["parts"]
    names = [part["name"] for part in parts]
    assert sorted(path.name for path in Path(folder).iterdir()) == sorted([*names, MANIFEST])
    return b"".join(Path(folder, name).read_bytes() for name in names)


def finished() -> set[str]:
    """Return the names of the records of finished parts."""
    return {path.name for path in Path("noisy", JOB).glob("part-*.json")}


def records() -> dict[Path, int]:
    """Return the times of the files of finished items of all stages."""
    return {path: path.stat().st_mtime_ns for path in Path("out", JOB).glob("*-*")}


FILTER = ["filter", "clean", "--filter", "clean,duplicates", "-o"]
STAGES = [(NOISE, [("part", 3)]), (FILTER, [("keys", 3), ("duplicates", 0), ("part", 3)])]


@pytest.mark.slow
@pytest.mark.parametrize("kill", [kill_driver, kill_worker])
@pytest.mark.parametrize(("command", "stages"), STAGES)
def test_a_killed_run_resumes_by_part(
    kill: Callable[[], None], command: list[str], stages: list[tuple[str, int]], text: Path
) -> None:
    """Items that are finished are kept, unless their files are damaged."""
    words = [*command, "out/", *PARTS[1:]]
    for stage, index in stages:
        if (stage, kill) == ("duplicates", kill_worker):
            continue  # the driver runs a stage with one item
        errors = run_killed(words, stage, index, kill)
        if kill is kill_worker:
            assert "A worker process was killed" in errors
            assert "Traceback" not in errors
    before = records()
    finished = sorted(path for path in before if path.suffix == ".json")
    damaged = Path("out", json.loads(finished[0].read_text())["files"][0]["name"])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    after: dict[Path, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        finish = JobFolder.finish
        patch.setattr(JobFolder, "finish", lambda *words: (after.update(records()), finish(*words)))
        assert main([*words, "--jobs", "1"]) == 0
    again = {path for path in before if after[path] != before[path]}
    assert again <= {finished[0], damaged}
    assert main([*command, "whole"]) == 0
    assert joined("out") == Path("whole").read_bytes()


@pytest.mark.slow
def test_a_killed_selection_resumes(here: Path) -> None:
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    apply = ["learned-filter", "apply", "made", "mono.s", "mono.t", "--keep", "33", "-o"]
    assert main([*apply, "x", "y", "--jobs", "1"]) == 0
    words = [*apply, "X/", "Y/", "--part-size", "1K"]
    for stage, index in (("part", 1), ("scores", 1), ("selection", 0)):
        run_killed(words, stage, index, kill_driver, "blocks.BLOCK_SIZE = 2000")
    assert main([*words, "--jobs", "1"]) == 0
    for name in "xy":
        assert joined(name.upper()) == Path(name).read_bytes()


def test_other_settings_and_two_runs(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NOISE, "whole"]) == 0
    assert main([*NOISE, *PARTS]) == 0
    capsys.readouterr()
    assert "seed was 1 and is 2" in refused(capsys, 2, *NOISE, *PARTS, "--seed", "2")
    assert "part_size was" in refused(capsys, 2, *NOISE, "noisy/", "--part-size", "1M")
    assert "`shard`" not in refused(capsys, 2, *NOISE, "other", "--shard", "1/2")
    assert "Its name ends with /" in refused(capsys, 2, *NOISE, "other", "--shard", "1/2")
    assert joined("noisy") == Path("whole").read_bytes()
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
    assert joined("noisy") == Path("whole").read_bytes()
    monkeypatch.setattr("fairseq_ssl.io.executors.__version__", "9.9")
    message = refused(capsys, 1, *NOISE, "other/", "--executor", "ray")
    assert "version 0.2.0 of fairseq_ssl. Expected 9.9. Install it on all machines." in message
    assert "--jobs is for one machine" in refused(
        capsys, 2, *NOISE, "other/", "--executor", "ray", "--jobs", "2"
    )
