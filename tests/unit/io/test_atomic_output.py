"""Locks and atomic renames of output files."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError, OutputError, UsageError
from fairseq_ssl.io.outputs import (
    ResumableFiles,
    atomic_folder,
    atomic_lines,
    atomic_path,
    build_once,
    exclusive,
    write_signature,
)
from fairseq_ssl.io.text_files import open_bytes
from fairseq_ssl.signature import Signature

WRITER = """
import sys
from pathlib import Path
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.outputs import atomic_lines

output, text = Path(sys.argv[1]), sys.argv[2]
for _ in range(40):
    try:
        with atomic_lines(output) as file:
            for _ in range(50):
                file.write(text * 1000)
                file.flush()
    except UsageError as error:
        assert "Another run" in str(error)
    assert len(set(output.read_text())) == 1 and output.stat().st_size == 50_000
"""


def write(output: Path, text: str) -> None:
    with atomic_path(output) as temporary:
        temporary.write_text(text)


def test_parallel_runs_do_not_mix_their_outputs(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write(output, "z" * 50_000)
    words = [sys.executable, "-c", WRITER, str(output)]
    runs = [subprocess.Popen([*words, text], stderr=subprocess.PIPE) for text in "abcd"]
    assert [run.communicate()[1] for run in runs] == [b""] * 4
    assert [*tmp_path.iterdir()] == [output]


def test_files_of_a_killed_run_do_not_block_and_are_removed(tmp_path: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; "
        "from fairseq_ssl.io.outputs import atomic_path; "
        f"opened = atomic_path(Path({str(tmp_path / 'out')!r})); "
        "opened.__enter__().write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert {path.name for path in tmp_path.iterdir()} == {"out.lock", "out.tmp"}
    write(tmp_path / "out", "all")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_another_process_is_rejected_by_each_kind_of_output(tmp_path: Path) -> None:
    output = tmp_path / "out"
    for kind in ("atomic_path(path)", "atomic_folder(path)", "ResumableFiles([path], {}, True)"):
        code = (
            "from fairseq_ssl.io.outputs import *; import sys; from pathlib import Path; "
            f"path = Path(sys.argv[1]); {kind}.__enter__()"
        )
        with atomic_folder(output):
            words = [sys.executable, "-c", code, str(output)]
            done = subprocess.run(words, capture_output=True, text=True)
        assert "UsageError: Another run is writing" in done.stderr


def test_locks_are_reentrant_per_thread(tmp_path: Path) -> None:
    found = []

    def run() -> None:
        try:
            write(tmp_path / "out", "thread")
        except UsageError as error:
            found.append(str(error))

    with exclusive(tmp_path / "out"):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        write(tmp_path / "out", "own")
        assert (tmp_path / "out.lock").exists()
    assert len(found) == 1
    assert (tmp_path / "out").read_text() == "own"
    write(tmp_path / "out", "later")


def test_waiting_run_finds_the_file_complete(tmp_path: Path) -> None:
    made, calls = tmp_path / "out", []

    def make() -> None:
        calls.append(1)
        write(made, "made")

    threads = [threading.Thread(target=build_once, args=(made, made.exists, make)) for _ in "abc"]
    with exclusive(made):
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def test_a_complete_file_needs_no_lock(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = tmp_path / "file" / "out"  # cannot be locked, as in a folder without write permission
    build_once(made, lambda: True, made.touch)
    with pytest.raises(OutputError, match=r"out .* Choose another folder\."):
        build_once(made, lambda: False, made.touch, " Choose another folder.")


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("file")
    write(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    null = tmp_path / "null"
    null.symlink_to(os.devnull)
    write(null, "text")
    assert null.is_char_device()
    assert {path.name for path in tmp_path.iterdir()} == {"link", "file", "null"}


def test_pipes_and_open_files_are_written_directly(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb"):
        link = Path(f"/dev/fd/{writing}")  # a process substitution
        write(link, "text")
        write_signature(Signature("method"), link)
        assert pipe.read(4) == b"text"
    with (tmp_path / "file").open("wb") as file:
        link = Path(f"/dev/fd/{file.fileno()}")
        write(link, "text")
        write_signature(Signature("method"), link)
    assert (tmp_path / "file").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    write(tmp_path / "pipe", "text")
    assert reader.communicate()[0] == b"text"


@pytest.mark.parametrize("name", ["folder", "file/out", "loop/out"])
def test_an_unwritable_output_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match=f"{name} could not"), atomic_path(tmp_path / name):
        pytest.fail("the output could not be renamed")


@pytest.mark.parametrize("name", ["out.tmp", "out.lock", "out.json.tmp", "out.progress.tmp"])
@pytest.mark.parametrize("is_resumable", [False, True])
def test_a_link_in_place_of_a_file_of_the_writer_is_not_followed(
    name: str, is_resumable: bool, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / name).symlink_to("new" if name == "out.lock" else "other")
    with suppress(OutputError):
        if is_resumable:
            with ResumableFiles([tmp_path / "out"], {}, afresh=False) as files:
                files.append([b"text"], {"line": 1})
                files.finish(Signature("method"))
        else:
            write(tmp_path / "out", "text")
    assert (tmp_path / "other").read_text() == "kept"
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "out").is_symlink()
    assert (tmp_path / "out").exists() == (name != "out.lock")


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", unsupported)
    write(tmp_path / "out", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_signature_replaces_only_a_signature(is_link: bool, tmp_path: Path) -> None:
    output, beside = tmp_path / "data", tmp_path / "data.json"
    if is_link:
        (tmp_path / "folder").mkdir()
        output.symlink_to("folder/file")
    beside.write_text('{"text": "a record of the user"}\n')
    for _ in range(2):  # the lock is released after an error
        with pytest.raises(UsageError, match=r"data\.json would be replaced"):
            write(output, "text")
    assert not output.exists()
    assert beside.read_text() == '{"text": "a record of the user"}\n'
    beside.write_text('{\n  "signature": "token-wins|version:0.2.0"\n}\n')  # of an analysis
    thread = threading.Thread(target=write, args=(output, "text"))
    thread.start()
    thread.join()
    write_signature(Signature("noise"), output)
    write(output, "new")
    assert not beside.exists()  # a run that is killed here has not written its own


def test_a_lock_replaces_only_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "poetry.lock"
    lock.write_text("[[package]]\n")
    with pytest.raises(UsageError, match=r"poetry\.lock is not a lock file"):
        write(tmp_path / "poetry", "text")
    assert lock.read_text() == "[[package]]\n"


@pytest.mark.parametrize("name", ["deep/lines.tsv", "lines.tsv.gz", "lines.tsv.zst"])
def test_lines_replace_a_file_at_the_end(name: str, tmp_path: Path) -> None:
    if name.endswith(".zst"):
        pytest.importorskip("zstandard")
    path = tmp_path / name
    with atomic_lines(path) as file:
        file.write("a\u2028b\n")
        assert not path.exists()
    writing = atomic_lines(path)
    writing.__enter__().write("half")
    writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert [*path.parent.iterdir()] == [path]
    with open_bytes(path) as saved:
        assert saved.read() == "a\u2028b\n".encode()


def contents(folder: Path) -> dict[str, str]:
    """Return all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_other_folders_are_replaced_at_the_end(tmp_path: Path) -> None:
    parent = tmp_path / "deep"
    for name in ("out", "out.tmp", "out.tmp.old"):
        (parent / name).mkdir(parents=True)
        (parent / name / "old").write_text("old")
    with atomic_folder(parent / "out") as aside:
        assert not list(aside.iterdir())
        (aside / "file").write_text("new")
        assert contents(parent / "out") == {"old": "old"}
        write_signature(Signature("older"), parent / "out")
    assert contents(parent) == {"out/file": "new"}


def fail_halfway(output: Path, error: type[BaseException]) -> None:
    """Write a file, then fail."""
    with atomic_folder(output) as aside:
        (aside / "file").write_text("half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, DataError])
def test_a_failure_keeps_the_existing_folder(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    (tmp_path / "out.json").write_text('{"method": "export"}')
    with pytest.raises(error):
        fail_halfway(tmp_path / "out", error)
    assert contents(tmp_path) == {"out/old": "old", "out.json": '{"method": "export"}'}


def test_a_failed_rename_keeps_both_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "out.tmp":
            raise PermissionError("refused")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with (
        pytest.raises(DataError, match="refused"),
        atomic_folder(tmp_path / "out") as aside,
    ):
        (aside / "file").write_text("new")
    assert contents(tmp_path) == {"out.tmp.old/old": "old"}


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    for text in ("first", "second"):
        with atomic_folder(tmp_path / "out") as aside:
            (aside / "file").write_text(text)
        assert (tmp_path / "out").readlink() == Path("disk")
        assert contents(tmp_path / "disk") == {"file": text}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "out"]


@pytest.mark.parametrize("name", ["out", "out/deep"])
def test_a_file_is_not_replaced_by_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("file")
    with pytest.raises(DataError, match=f"{name} could not"), atomic_folder(tmp_path / name):
        pytest.fail("there is no folder to write to")
    assert contents(tmp_path) == {"out": "file"}
