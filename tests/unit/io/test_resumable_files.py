"""Resumable files after an interrupted run."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io import outputs
from fairseq_ssl.io.outputs import ResumableFiles, complete, is_done, temporary_path
from fairseq_ssl.signature import Signature

TASK = {"seed": 1, "shard": (1, 2)}


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


def stopped(paths: list[Path]) -> None:
    """Write a chunk and raise an error."""
    with suppress(RuntimeError), ResumableFiles(paths, TASK, afresh=False) as files:
        state = {"at": 1}
        files.append([b"one\n", b"1\n"][: len(paths)], state)
        state["at"] += 1  # a chunk that is not written
        raise RuntimeError


def test_files_are_renamed_when_finished(paths: list[Path]) -> None:
    with ResumableFiles(paths, TASK, afresh=False) as files:
        files.append([b"one\n", b"1\n"], {})
        assert not any(path.exists() for path in paths)
        files.finish(Signature("test", TASK))
    assert [path.read_text() for path in paths] == ["one\n", "1\n"]
    assert is_done(paths, TASK)
    assert not is_done(paths, {**TASK, "seed": 2})
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["a", "a.json", "b"]
    paths[1].unlink()
    assert not is_done(paths, TASK)


def test_the_next_run_resumes(paths: list[Path]) -> None:
    stopped(paths)
    complete(paths)  # does nothing, because the run has not finished
    with ResumableFiles(paths, TASK, afresh=False) as files:
        assert files.state == {"at": 1}
        files.append([b"two\n", b"2\n"], {"at": 2})
        files.finish(Signature("test", TASK))
    assert [path.read_text() for path in paths] == ["one\ntwo\n", "1\n2\n"]


def test_the_state_is_saved_after_each_pause(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, saved = [0.0], []
    monkeypatch.setattr(outputs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with ResumableFiles(paths, TASK, afresh=False) as files:
        for at in range(1, 8):
            now[0] = outputs.PAUSE * at / 3
            files.append([b"one\n", b"1\n"], {"at": at})
            note = outputs.journal(paths[0])
            saved.append(json.loads(note.read_text())["state"]["at"] if note.exists() else 0)
        files.finish(Signature("test", TASK))
    assert saved == [0, 0, 3, 3, 3, 6, 6]


def test_bytes_after_the_saved_size_are_truncated(paths: list[Path]) -> None:
    stopped(paths)
    with temporary_path(paths[0]).open("ab") as file:
        file.write(b"tw")
    with ResumableFiles(paths, TASK, afresh=False) as files:
        files.finish(Signature("test", TASK))
    assert paths[0].read_text() == "one\n"


def test_a_run_can_start_afresh(paths: list[Path]) -> None:
    stopped(paths)
    with ResumableFiles(paths, {"seed": 9}, afresh=True) as files:
        assert files.state == {}
        files.finish(Signature("test", {"seed": 9}))
    assert paths[0].read_text() == ""


def test_a_run_that_starts_afresh_and_is_killed_does_not_mix_with_the_older_run(
    paths: list[Path],
) -> None:
    stopped(paths)
    killed = (
        "import os, sys; from pathlib import Path; from fairseq_ssl.io.outputs import "
        "ResumableFiles; files = ResumableFiles([*map(Path, sys.argv[1:])], {}, afresh=True); "
        "files.append([b'long line\\n', b'long line\\n'], {}); "
        "[file.flush() for file in files._files]; os._exit(1)"
    )
    assert subprocess.run([sys.executable, "-c", killed, *paths], check=False).returncode == 1
    assert temporary_path(paths[0]).read_text() == "long line\n"
    with pytest.raises(UsageError, match="a was started with different settings"):
        ResumableFiles(paths, TASK, afresh=False)


def test_different_settings_are_rejected(paths: list[Path]) -> None:
    stopped(paths)
    with pytest.raises(UsageError, match="seed was 1 and is 2") as error:
        ResumableFiles(paths, {**TASK, "seed": 2}, afresh=False)
    assert error.traceback  # refers to the files, which are not deleted by garbage collection
    assert not list(paths[0].parent.glob("*.lock"))


DAMAGES = {"sizes": ([4], [4, "2"], [4, -2]), "state": ([1],), "task": (None,)}


def test_lost_bytes_and_invalid_journals_are_reported(paths: list[Path]) -> None:
    stopped(paths)
    note = outputs.journal(paths[0])
    content = json.loads(note.read_text())
    changed = ({**content, name: value} for name, values in DAMAGES.items() for value in values)
    for damaged in ["{", *map(json.dumps, changed)]:
        note.write_text(damaged)
        with pytest.raises(DataError, match=r"a\.progress is not a valid progress file"):
            ResumableFiles(paths, TASK, afresh=False)
    note.write_text(json.dumps(content))
    temporary_path(paths[1]).write_bytes(b"")
    with pytest.raises(DataError, match=r"b\.tmp has [0-9]+ bytes"):
        ResumableFiles(paths, TASK, afresh=False)


def full(_: int) -> None:
    """Stand for fsync of a network file system, which can report a full disk as late as there."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_older_files_do_not_get_the_signature_of_a_failed_run(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in paths:
        path.write_text("older\n")
    monkeypatch.setattr(os, "fsync", full)
    with ResumableFiles(paths, TASK, afresh=True) as files:
        files.append([b"one\n", b"1\n"], {"at": 1})
        with pytest.raises(OSError, match="No space"):
            files.finish(Signature("test", TASK))
    assert not is_done(paths, TASK)


def test_a_full_disk_before_the_first_save_leaves_no_files(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full)
    stopped(paths)
    assert not list(paths[0].parent.iterdir())


def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    stopped([path])
    with ResumableFiles([path], TASK, afresh=False) as files:
        assert files.state == {"at": 1}
        files.finish(Signature("test", TASK))
    assert path.read_text() == "one\n"
    assert is_done([path], TASK)


def test_a_run_killed_while_renaming_is_not_completed_with_other_files(paths: list[Path]) -> None:
    stopped(paths)
    note = outputs.journal(paths[0])
    note.write_text(json.dumps({**json.loads(note.read_text()), "finished": True}))
    others = [paths[0], paths[1].with_name("c")]
    complete(others)
    with pytest.raises(UsageError, match=r"files was \['a', 'b'\] and is \['a', 'c'\]"):
        ResumableFiles(others, TASK, afresh=False)
    complete(paths)
    assert [path.read_text() for path in paths] == ["one\n", "1\n"]


def test_a_run_killed_before_its_signature_has_not_finished(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = outputs.write_signature
    found: list[Path] = []

    def watch(signature: Signature, path: Path) -> Path:
        complete(paths)
        found.extend(path for path in paths if path.exists())
        return write(signature, path)

    monkeypatch.setattr(outputs, "write_signature", watch)
    with ResumableFiles(paths, TASK, afresh=False) as files:
        files.append([b"one\n", b"1\n"], {})
        files.finish(Signature("test", TASK))
    assert not found
    assert is_done(paths, TASK)


@pytest.mark.parametrize("state", [{}, {"at": 1}])
def test_a_run_interrupted_while_renaming_is_completed(
    state: dict[str, int], paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def interrupt(self: Path, target: Path) -> Path:
        if self.name == "b.tmp":
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Path, "replace", interrupt)
        with ResumableFiles(paths, TASK, afresh=False) as files:
            files.append([b"one\n", b"1\n"], state)
            files.finish(Signature("test", TASK))
    assert [path.exists() for path in paths] == [True, False]
    complete(paths)
    assert [path.read_text() for path in paths] == ["one\n", "1\n"]
    assert is_done(paths, TASK)
