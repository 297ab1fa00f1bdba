"""Output files and folders that appear when they are complete, written by one run at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from fairseq_ssl.errors import OutputError, UsageError
from fairseq_ssl.io.text_files import line_writer

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
