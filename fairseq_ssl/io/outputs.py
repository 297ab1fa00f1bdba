"""Output files and folders: atomic, written by one run at a time, and resumable."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TextIO

from fairseq_ssl.errors import DataError, OutputError, UsageError
from fairseq_ssl.io.text_files import json_text, line_writer, parse_json

if TYPE_CHECKING:
    from fairseq_ssl.signature import Signature

BUSY = (errno.EACCES, errno.EAGAIN)
"""Errors of a lock that another process holds."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks, such as some network disks."""
FULL = (errno.ENOSPC, errno.EDQUOT)
POLL = 0.05
"""Seconds between two looks at a lock that another thread holds."""

_held: dict[Path, int] = {}
"""Outputs locked by this process, with the thread. The kernel locks for processes only."""


@contextmanager
def exclusive(output: Path, wait: bool = False) -> Iterator[None]:
    """Let no other run of this package write `output` meanwhile.

    The lock is a file beside the output, ``.lock``. The kernel releases it when a run is killed,
    so a leftover file blocks nobody. A thread may lock the same output again inside.

    Args:
        output: a file or folder; its parent is created. A device or a pipe is not locked
        wait: wait for the other run, instead of raising a `UsageError`
    """
    path = _target(output)
    thread = threading.get_ident()
    if is_device(output) or _held.get(path) == thread:
        yield
        return
    while _held.setdefault(path, thread) != thread:
        if not wait:
            raise _busy(output)
        time.sleep(POLL)
    lock = path.with_name(f"{path.name}.lock")
    created = [parent for parent in path.parents if not parent.exists()]
    try:
        descriptor = _locked(output, lock, wait)
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()  # before it is released: who opened it meanwhile opens it again
            os.close(descriptor)
    finally:
        del _held[path]
        with suppress(OSError):  # parents of a run that wrote nothing
            for parent in created:
                parent.rmdir()


@contextmanager
def atomic_path(output: Path, suffix: str = "") -> Iterator[Path]:
    """Yield a temporary path beside `output`; rename that to `output` at the end.

    Args:
        output: the file to write. A device or a pipe is written directly
        suffix: an end of the output's name that the temporary name must keep, such as .gz
    """
    if is_device(output):
        with write_errors(output):
            yield output
        return
    with exclusive(output), write_errors(output):
        target = _target(output)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = target.with_name(f"{target.name.removesuffix(suffix)}.tmp{suffix}")
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def write_errors(output: Path) -> Iterator[None]:
    """Turn an error of the operating system into an `OutputError` that names the output."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        failed = system_error(error)
        if failed is None:
            raise
        raise output_error(output, failed) from None


def output_error(output: Path, error: OSError) -> OutputError:
    """Return the error of an output that cannot be written; of a full disk, with its folder."""
    reason = error.strerror or str(error)
    if isinstance(error.filename, str) and ".tmp" not in Path(error.filename).name:
        reason = f"{reason}: {error.filename}"
    full = error.errno in FULL and not is_device(output)
    advice = f" The disk of {output.absolute().parent} is full." if full else ""
    return OutputError(f"{output} could not be written: {reason}.{advice}")


def system_error(error: BaseException) -> OSError | None:
    """Return the error of the operating system that this error is, or that it came from.

    torch raises a RuntimeError about positions in a file when the disk is full.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return found


def is_device(output: Path) -> bool:
    """Return True for what is neither a file nor a folder, such as /dev/null or a pipe."""
    try:
        mode = output.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _target(output: Path) -> Path:
    """Return the file that a link leads to, which is written in its place."""
    try:
        return output.resolve()
    except (OSError, RuntimeError):  # links in a circle
        return output.absolute()


def _locked(output: Path, lock: Path, wait: bool) -> int:
    """Return the descriptor of the locked file."""
    with write_errors(output):
        while True:
            lock.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # the other run removed the folder that it had created
                continue
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    os.close(descriptor)
                    raise _busy(output) if error.errno in BUSY else error from None
            if _is_same(lock, descriptor):
                return descriptor
            os.close(descriptor)  # the other run has removed it


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _busy(output: Path) -> UsageError:
    return UsageError(f"Another run is writing {output}. Wait for it, or stop it.")


@contextmanager
def atomic_lines(output: Path) -> Iterator[TextIO]:
    """Yield a file for lines that in the end takes the name of `output`, compressed if .gz."""
    compressed = ".gz" if output.suffix == ".gz" else ""
    with atomic_path(output, compressed) as temporary, line_writer(temporary) as file:
        yield file


@contextmanager
def atomic_folder(output: Path) -> Iterator[Path]:
    """Yield a temporary folder, ``.tmp``, that in the end takes the name of `output`.

    What an earlier run left in it is deleted.
    """
    temporary = output.with_name(f"{output.name}.tmp")
    with exclusive(output), write_errors(output):
        try:
            if temporary.exists():
                shutil.rmtree(temporary)
            temporary.mkdir()
            yield temporary
            _replace_folder(temporary, output)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(temporary: Path, output: Path) -> None:
    """Rename; an older folder is moved away first and deleted last, so it is never seen in part."""
    older = temporary.with_name(f"{temporary.name}.old")
    shutil.rmtree(older, ignore_errors=True)
    if output.exists():
        output.rename(older)
    temporary.rename(output)
    shutil.rmtree(older, ignore_errors=True)


def build_once(
    made: Path, is_done: Callable[[], bool], make: Callable[[], None], hint: str = ""
) -> None:
    """Make it unless it is done; `hint` ends the error of a file that cannot be written."""
    if is_done():
        return
    try:
        with exclusive(made, wait=True):
            if not is_done():
                make()
    except OutputError as error:
        raise OutputError(f"{error}{hint}") from None


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
