"""Files written piece by piece that a killed run leaves so that the next can go on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.atomic import exclusive, write_errors
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.signature import Signature, json_text

PAUSE = 5.0
"""Seconds of work that a kill may cost."""


class ResumableFiles:
    """Several files that grow side by side as ``.tmp``, and take their names when finished.

    Beside the first, ``.progress`` tells of how many bytes each has for certain and what the
    caller wants to know when it goes on. What was written after that is cut off.
    """

    def __init__(self, paths: Sequence[Path], task: Mapping[str, Any], afresh: bool) -> None:
        """Open the files; `task` is what an earlier run must have been asked for as well."""
        self.paths = list(paths)
        self.task = json.loads(json_text(task))
        self.journal = journal(paths[0])
        self.state: dict[str, Any] = {}
        self._open = ExitStack()
        self._saved = time.monotonic()
        try:
            for path in self.paths:
                self._open.enter_context(exclusive(path))
            self._files = [self._opened(path) for path in self.paths]
            self._go_on(afresh)
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> ResumableFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Keep what there is, whatever happened; where that is nothing, leave nothing."""
        with suppress(OSError), self._open:  # of a full disk the last note holds
            if kind is not None and self.state:
                self._save()
            elif kind is not None:
                for path in [*self.tmp, self.journal]:
                    path.unlink(missing_ok=True)

    @property
    def tmp(self) -> list[Path]:
        """The files as they are called until they are finished."""
        return [temporary_path(path) for path in self.paths]

    def append(self, pieces: Sequence[bytes | Path], state: Mapping[str, Any]) -> None:
        """Write a piece to each file; `state` is what the next run gets if this is the last.

        A piece may be in a file, which is deleted then.
        """
        for file, piece in zip(self._files, pieces, strict=True):
            write_chunk(file, piece)
        self._sizes = [file.tell() for file in self._files]
        self.state = deepcopy(dict(state))
        if time.monotonic() - self._saved >= PAUSE:
            self._save()

    def finish(self, signature: Signature) -> None:
        """Give the files their names; the signature is written beside the first, and first."""
        signature.write_beside(self.paths[0])
        self._save(finished=True)
        complete(self.paths)

    def _opened(self, path: Path) -> IO[bytes]:
        with write_errors(path):
            temporary_path(path).touch()
            file = self._open.enter_context(temporary_path(path).open("r+b"))
            file.seek(0, os.SEEK_END)
        return file

    def _go_on(self, afresh: bool) -> None:
        """Cut the files to what is certain, or to nothing."""
        sizes = [0] * len(self.paths)
        if not afresh and self.journal.exists():
            try:
                found = parse_json(self.journal.read_text("utf-8"))
                task, sizes, self.state = found["task"], found["sizes"], found["state"]
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    f"{self.journal} cannot be read. Set `overwrite` to start again."
                ) from None
            if task != self.task:
                raise UsageError(
                    f"{self.paths[0]} was begun with other settings or another input: "
                    f"{_difference(task, self.task)}. Set `overwrite` to start again."
                )
        for file, size in zip(self._files, sizes, strict=True):
            if file.tell() < size:
                raise DataError(f"{file.name} has lost its end. Set `overwrite` to start again.")
            file.truncate(size)
            file.seek(size)
        self._sizes = sizes

    def _save(self, finished: bool = False) -> None:
        """Make sure of the bytes written, then of the note about them."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
        note: dict[str, Any] = {"task": self.task, "sizes": self._sizes, "state": self.state}
        note["finished"] = finished
        beside = temporary_path(self.journal)
        beside.write_text(json_text(note, indent=None), "utf-8")
        beside.replace(self.journal)
        self._saved = time.monotonic()


def temporary_path(path: Path) -> Path:
    """Return what a file is called while it is written."""
    return path.with_name(f"{path.name}.tmp")


def write_chunk(file: IO[bytes], piece: bytes | Path) -> None:
    """Write bytes, or those of a file, in the kernel, and delete that."""
    if isinstance(piece, bytes):
        file.write(piece)
        return
    file.flush()
    with piece.open("rb") as source:
        left = os.fstat(source.fileno()).st_size
        try:
            while left:
                left -= os.sendfile(file.fileno(), source.fileno(), None, left)
        except OSError as error:
            if error.errno != errno.EINVAL:  # as of a device
                raise
            shutil.copyfileobj(source, file)
    piece.unlink()


def journal(path: Path) -> Path:
    """Return where the state of files is noted, of which `path` is the first."""
    return path.with_name(f"{path.name}.progress")


def complete(paths: Sequence[Path]) -> None:
    """Give finished files their names, where a run was killed just before, or is about to."""
    if not paths or not journal(paths[0]).exists():
        return
    try:
        finished = parse_json(journal(paths[0]).read_text("utf-8"))["finished"]
    except (ValueError, KeyError, TypeError):
        return
    if finished:
        for path in paths:
            if temporary_path(path).exists():
                temporary_path(path).replace(path)
        journal(paths[0]).unlink()


def is_done(paths: Sequence[Path], task: Mapping[str, Any]) -> bool:
    """Tell whether the files are there, and the signature beside the first says of this task."""
    beside = paths[0].with_name(f"{paths[0].name}.json")
    try:
        found = parse_json(beside.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    asked = json.loads(json_text(task))
    same = isinstance(found, dict) and all(found.get(key) == asked[key] for key in asked)
    return same and all(path.exists() for path in paths)


def file_fingerprint(path: Path) -> list[int]:
    """Return what tells a file from what it may become: its size and when it was written.

    Of a folder, the size of its files together, and when the last was written.
    """
    try:
        parts = [part for part in path.iterdir() if part.is_file()] if path.is_dir() else [path]
        stats = [part.stat() for part in parts]
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except OSError as error:
        raise DataError(f"{path} can not be read: {error.strerror}.") from None
    last = max((stat.st_mtime_ns for stat in stats), default=0)
    return [sum(stat.st_size for stat in stats), last]


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    changed = [key for key in now if before.get(key) != now[key]]
    return ", ".join(f"{key} was {before.get(key)!r} and is {now[key]!r}" for key in changed)
