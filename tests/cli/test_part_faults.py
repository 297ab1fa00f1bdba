"""Kills and damages of runs that write a folder of parts, on this machine and on a Ray cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.main import main
from fairseq_ssl.io import blocks
from fairseq_ssl.io.executors import RayExecutor
from fairseq_ssl.io.outputs import exclusive
from fairseq_ssl.io.parts import JobFolder
from fairseq_ssl.io.text_files import JOB, MANIFEST
from tests.cli.killing import (
    KillOnce,
    contents,
    is_stage,
    kill_driver,
    kill_worker,
    run_killed,
    wrap_work,
)
from tests.cli.rewriting import refused
from tests.cli.test_full_disk import small_disk
from tests.cli.test_learned_filter import FIT, VECTORS, here
from tests.ray_clusters import cluster

__all__ = ["cluster", "here", "small_disk"]

NOISE = ["noise", "clean", "--method", "characters:rate=0.5", "-o"]
ALONE = ("--jobs", "1")
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
            assert "A worker process ended early" in errors
            assert "Traceback" not in errors
    before = records()
    finished = sorted(path for path in before if path.suffix == ".json")
    damaged = Path("out", json.loads(finished[0].read_text())["files"][0]["name"])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    after: dict[Path, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        finish = JobFolder.finish
        patch.setattr(JobFolder, "finish", lambda *words: (after.update(records()), finish(*words)))
        assert main([*words, *ALONE]) == 0
    again = {path for path in before if after[path] != before[path]}
    assert again <= {finished[0], damaged}
    assert main([*command, "whole", *ALONE]) == 0
    assert joined("out") == Path("whole").read_bytes()


@pytest.mark.slow
def test_a_killed_selection_resumes(here: Path) -> None:
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    apply = ["learned-filter", "apply", "made", "mono.s", "mono.t", "--keep", "33", "-o"]
    assert main([*apply, "x", "y", *ALONE]) == 0
    words = [*apply, "X/", "Y/", "--part-size", "1K"]
    for stage, index in (("scores", 1), ("selection", 0)):
        run_killed(words, stage, index, kill_driver, 1, "blocks.BLOCK_SIZE = 2000")
    assert main([*words, *ALONE]) == 0
    for name in "xy":
        assert joined(name.upper()) == Path(name).read_bytes()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of parts, one with a damaged part and one without a part, and folders of files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 100)
    for folder, sizes in {"two": (9, 5), "short": (9, 4), "one": (9,)}.items():
        Path(folder).mkdir()
        for number, size in enumerate(sizes):
            Path(folder, f"{number}.en").write_text("a b\n" * size)
    Path("clean").write_text("a b c\n" * 100)
    Path("empty").touch()
    for folder in ("damaged", "missing", "noisy", "shards"):
        shard = ("--shard", "1/2") * (folder == "shards")
        assert main([*NOISE, f"{folder}/", "--part-size", "100", *shard, *ALONE]) == 0
    Path("damaged", "part-00002").write_text("a\n")
    Path("missing", "part-00002").unlink()
    Path("noisy", "notes").write_text("mine\n")
    Path("other").mkdir()
    Path("other", "notes").write_text("mine\n")


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ("tokenize damaged --moses en", 1, "damaged/part-00002 has 2 bytes. Expected 1"),
        ("tokenize missing --moses en", 1, "missing/part-00002 does not exist, but is listed"),
        ("tokenize shards --moses en", 1, "shards is not complete. First complete"),
        ("filter two one --filter clean -o a/ b/", 2, "two has 2 files but one has 1. Parallel"),
        ("filter two one --filter clean -o a b", 2, "two has 2 files but one has 1. Parallel"),
        (
            "filter two short --filter clean -o a/ b/",
            1,
            "short/1.en ends after line 4, but two/1.en",
        ),
        ("filter two short --filter clean -o a b", 1, "short/1.en ends after line 4, but two/1.en"),
        ("filter two two --filter clean -o a/ a/", 2, "a is an input or another output."),
        ("filter two two --filter clean -o two/x/ b/", 2, "two/x is in the input"),
        ("filter *.en --filter clean -o x.en/", 2, "x.en is an input. Choose another output."),
        ("filter cl*n --filter clean -o clan/", 2, "clan is an input."),
        ("filter empty --filter clean -o a/", 1, "empty is empty. Expected at least one line."),
        ("filter empty --filter duplicates -o a/", 1, "empty is empty. Expected at least one"),
        ("filter two --filter clean -o other/", 2, "other is not empty, and is not an output"),
        ("filter two --filter clean -o other/ --force", 2, "other is not empty, and is not an out"),
        ("filter two --filter clean -o noisy/", 2, "noisy was written with different settings"),
        ("filter two --filter clean -o a --shard 1/2", 2, "--shard needs a folder of parts"),
        ("filter two --filter clean --shard 1/2", 2, "the output is stdout"),
        ("filter - --filter clean -o a/", 2, "stdin cannot be split into a folder of parts."),
    ],
)
def test_wrong_texts_and_outputs(
    words: str, code: int, problem: str, folders: None, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, code, *words.split(), *ALONE)
    assert problem in message
    assert len(message.splitlines()) == code  # the second line is a hint
    assert {path.name for path in Path("other").iterdir()} == {"notes"}


def test_a_text_that_changes_between_shards(
    folders: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*NOISE, "shards/", "--part-size", "100", "--shard", "2/2"]
    before = contents(Path("shards"))
    with Path("clean").open("a") as file:
        file.write("more\n")
    assert (
        "shards was written with different settings or another input: an input file has changed"
        in refused(capsys, 2, *words)
    )
    message = refused(capsys, 2, *words, "--force")
    assert "--force cannot be set with --shard. To start again, delete shards." in message
    assert contents(Path("shards")) == before


def test_more_shards_than_parts(folders: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Shards without parts write nothing, and report nothing."""
    for number in range(20):
        words = [*NOISE, "many/", "--part-size", "200", "--shard", f"{20 - number}/20", *ALONE]
        assert main(words) == 0
    assert main([*NOISE, "whole", *ALONE]) == 0
    assert joined("many") == Path("whole").read_bytes()
    assert capsys.readouterr().err.count("wrote many") == 1


def test_forced_outputs_keep_other_files(folders: None) -> None:
    assert main([*NOISE, "noisy/", "--part-size", "200", "--seed", "2", "--force", *ALONE]) == 0
    assert Path("noisy", "notes").read_text() == "mine\n"
    Path("noisy", "notes").unlink()
    assert main([*NOISE, "whole", "--seed", "2", *ALONE]) == 0
    assert joined("noisy") == Path("whole").read_bytes()


def test_two_runs_at_the_same_time(folders: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*NOISE, "other2/", *ALONE]
    with ThreadPoolExecutor(1) as thread:  # a lock belongs to a thread
        lock = exclusive(Path("other2"))
        thread.submit(lock.__enter__).result()
        assert "Another run is writing other2. Wait until it" in refused(capsys, 2, *words)
        thread.submit(lock.__exit__, None, None, None).result()
    assert main(words) == 0


def test_other_settings(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text.write_text("a b c .\n" * 50_000)
    assert main([*NOISE, "whole", *ALONE]) == 0
    assert main([*NOISE, *PARTS, *ALONE]) == 0
    capsys.readouterr()
    assert "seed was 1 and is 2" in refused(capsys, 2, *NOISE, *PARTS, "--seed", "2")
    assert "part_size was" in refused(capsys, 2, *NOISE, "noisy/", "--part-size", "1M")
    assert "`shard`" not in refused(capsys, 2, *NOISE, "other", "--shard", "1/2")
    assert "outputs that end with /" in refused(capsys, 2, *NOISE, "other", "--shard", "1/2")
    assert joined("noisy") == Path("whole").read_bytes()
    Path("noisy", MANIFEST).unlink()
    assert "noisy is not empty, and is not an output" in refused(capsys, 2, *NOISE, *PARTS)


@dataclass(frozen=True)
class WaitOnNode:
    """Picklable function of a stage that creates `flag` on a node, and never ends there."""

    work: Callable[[Any], Any]
    stage: str
    node: str
    flag: Path

    def __call__(self, item: Any) -> Any:
        import ray

        is_here = ray.get_runtime_context().get_node_id() == self.node
        if is_here and is_stage(self.work, self.stage) and not self.flag.exists():
            self.flag.touch()
            time.sleep(1000)
        return self.work(item)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "stage"), [(NOISE, "part"), (FILTER, "keys"), (FILTER, "part")]
)
def test_a_lost_node(
    command: list[str], stage: str, cluster: Any, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, flag = cluster.add_node(num_cpus=2), text.with_name("waiting")
    cluster.wait_for_nodes()
    ended = threading.Event()

    def kill() -> None:
        """Kill the node when an item waits on it."""
        while not flag.exists() and not ended.wait(0.01):
            pass
        cluster.remove_node(lost, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    monkeypatch.setattr(RayExecutor, "imap", RayExecutor.imap)  # restored at the end
    wrap_work(RayExecutor, partial(WaitOnNode, stage=stage, node=lost.node_id, flag=flag))
    try:
        assert main([*command, "out/", *PARTS[1:], "--executor", "ray"]) == 0
    finally:
        ended.set()
    assert flag.exists()
    killer.join()
    assert main([*command, "whole", *ALONE]) == 0
    assert joined("out") == Path("whole").read_bytes()


@pytest.mark.slow
def test_a_killed_worker_of_ray(cluster: Any, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = text.with_name("killed")
    monkeypatch.setattr(RayExecutor, "imap", RayExecutor.imap)  # restored at the end
    kill = partial(KillOnce, stage="part", index=2, kill=kill_worker, flag=flag)
    wrap_work(RayExecutor, kill)
    assert main([*NOISE, *PARTS, "--executor", "ray"]) == 0
    assert flag.exists()
    assert main([*NOISE, "whole", *ALONE]) == 0
    assert joined("noisy") == Path("whole").read_bytes()


@pytest.mark.slow
def test_a_killed_driver_of_ray(cluster: Any, text: Path) -> None:
    words = [*NOISE, *PARTS, "--executor", "ray", "--address", cluster.address]
    process = subprocess.Popen([sys.executable, "-m", "fairseq_ssl", *words])
    while not list(Path("noisy", JOB).glob("part-*.json")):
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert main(words) == 0
    assert main([*NOISE, "whole", *ALONE]) == 0
    assert joined("noisy") == Path("whole").read_bytes()


@pytest.mark.slow
def test_a_full_disk_of_a_node(
    cluster: Any, text: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*NOISE, f"{small_disk}/noisy/", *PARTS[1:], "--executor", "ray"]
    message = refused(capsys, 1, *words)
    assert "could not be written: No space left on device. The disk of" in message
    assert "Run the same job again to resume it." in message
    before = {path: path.stat().st_mtime_ns for path in small_disk.glob("noisy/part-*")}
    assert before
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    assert main(words) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert main([*NOISE, "whole", *ALONE]) == 0
    assert joined(f"{small_disk}/noisy") == Path("whole").read_bytes()


@pytest.mark.slow
def test_a_node_with_another_version(
    cluster: Any, text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairseq_ssl.io.executors.__version__", "9.9")
    message = refused(capsys, 1, *NOISE, "other/", "--executor", "ray")
    assert (
        f"version {__version__} of fairseq_ssl. Expected 9.9. Install the same version" in message
    )
    assert "--jobs is for one machine" in refused(
        capsys, 2, *NOISE, "other/", "--executor", "ray", "--jobs", "2"
    )
