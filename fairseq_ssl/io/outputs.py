"""Atomic, locked and resumable output files and folders."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from fairseq_ssl.errors import DataError, OutputError, UsageError, system_error
from fairseq_ssl.io.remote import RemotePath, as_path
from fairseq_ssl.io.text_files import (
    COMPRESSIONS,
    compress_chunk,
    json_text,
    line_writer,
    parse_json,
)

if TYPE_CHECKING:
    from fairseq_ssl.signature import Signature

BUSY = (errno.EACCES, errno.EAGAIN)
"""Error numbers raised if another process has locked a file."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Error numbers raised by file systems without locks, such as some network file systems."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers raised if a disk or a quota is full."""
AGAIN = "Set `overwrite` to start again."
POLL = 0.05
"""Time in seconds between two checks of a lock that another thread holds."""
DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""Folders that contain devices, or links to pipes and open files."""

_held: dict[Path, int] = {}
"""Outputs locked by this process, with the id of the locking thread. File locks are per process."""


@contextmanager
def exclusive(output: Path, wait: bool = False) -> Iterator[None]:
    """Lock an output, so that no other run of this package can write it.

    The lock file has the name of the output with ``.lock`` appended. The kernel releases the lock
    when a run is killed, so that a remaining lock file does not block other runs. The same thread
    can lock an output several times.

    Args:
        output: file or folder, whose parent is created; devices and pipes are not locked
        wait: whether to wait for another run instead of raising UsageError
    """
    if isinstance(output, RemotePath):
        raise OutputError(f"{output} is a URL. Expected a local path for this output.")
    path, thread = real_path(output), threading.get_ident()
    if is_device(output) or _held.get(path) == thread:
        yield
        return
    lock = path.with_name(f"{path.name}.lock")
    while _held.setdefault(path, thread) != thread:
        if not wait:
            raise _busy(output)
        time.sleep(POLL)
    try:
        _check_signature(output)
        descriptor = _locked(output, lock, wait)
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()  # before the release: waiting runs notice it and open a new file
            os.close(descriptor)
    finally:
        del _held[path]


@contextmanager
def atomic_path(output: Path, suffix: str = "") -> Iterator[Path]:
    """Yield a temporary path, and rename it to `output` at the end. Delete it after an error.

    Args:
        output: output file; devices and pipes are written directly
        suffix: suffix of `output` that the temporary name must also have, such as ``.gz``
    """
    if is_device(output):
        with write_errors(output):
            yield output
        return
    with exclusive(output), write_errors(output):
        target = real_path(output)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = target.with_name(f"{target.name.removesuffix(suffix)}.tmp{suffix}")
        temporary.unlink(missing_ok=True)  # it could be a link to another file
        try:
            yield temporary
            signature_path(output).unlink(missing_ok=True)  # of an older output
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def write_errors(output: Path) -> Iterator[None]:
    """Convert an OSError, or a RuntimeError caused by one, to an `OutputError` for `output`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        failed = system_error(error)
        if failed is None:
            raise
        raise output_error(output, failed) from None


def output_error(output: Path, error: OSError) -> OutputError:
    """Return the error for an unwritable output. Its message reports whether the disk is full."""
    reason = error.strerror or str(error)
    shown = (str(output), None)
    if error.filename not in shown and ".tmp" not in Path(str(error.filename)).name:
        reason = f"{reason}: {error.filename}"
    full = error.errno in FULL and not is_device(output)
    advice = f" The disk of {output.absolute().parent} is full or over quota." if full else ""
    return OutputError(f"{output} could not be written: {reason}.{advice}")


def is_device(output: Path) -> bool:
    """Return True for devices, pipes and open files, such as /dev/null and /dev/fd/63."""
    if isinstance(output, RemotePath):
        return False
    kinds = (Path.is_char_device, Path.is_fifo, Path.is_block_device, Path.is_socket)
    with suppress(OSError):
        return output.absolute().parent in DEVICES or any(kind(output) for kind in kinds)
    return False


def real_path(path: str | Path) -> Path:
    """Return an absolute path without symbolic links, so that outputs replace link targets.

    URLs are returned unchanged. Unlike `Path.resolve`, the function accepts circular links.
    """
    path = as_path(path)
    return path if isinstance(path, RemotePath) else Path(os.path.realpath(path))


def _check_signature(output: Path) -> None:
    """Raise UsageError if the signature of an output would replace an unrelated file."""
    beside = signature_path(output)
    with suppress(OSError), beside.open("rb") as file:
        if not re.match(rb'\{\s*"(method|signature)": ', file.read(100)):
            raise UsageError(
                f"{beside} would be replaced, but was not written by fairseq-ssl. Rename it, or "
                "choose another output."
            )


def write_signature(signature: Signature, path: Path) -> Path:
    """Write the signature of an output to its path with ``.json`` appended. Return this path.

    Nothing is written for a device or a pipe.
    """
    beside = signature_path(path)
    if not is_device(path):
        with atomic_path(beside) as temporary:
            text = json_text(signature.content())
            temporary.write_text(f"{text}\n", encoding="utf-8", newline="\n")
    return beside


def signature_path(output: Path) -> Path:
    """Return the path of an output's signature, which is the output path followed by ``.json``."""
    named = output if output.name else real_path(output)
    return named.with_name(f"{named.name}.json")


def _locked(output: Path, lock: Path, wait: bool) -> int:
    """Lock a file and return its descriptor. If it is locked, wait or raise UsageError."""
    with write_errors(output):
        lock.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            if os.fstat(descriptor).st_size:
                os.close(descriptor)
                raise UsageError(f"{lock} is not a lock file. Rename it, or choose another output.")
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    os.close(descriptor)
                    raise _busy(output) if error.errno in BUSY else error from None
            if _is_same(lock, descriptor):
                return descriptor
            os.close(descriptor)  # another run has removed the lock file


def _is_same(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False


def _busy(output: Path) -> UsageError:
    return UsageError(f"Another run is writing {output}. Wait until it ends, or stop it.")


@contextmanager
def atomic_lines(output: str | Path) -> Iterator[TextIO]:
    """Yield a temporary text file open for writing. Rename it to `output` at the end.

    The file is compressed if the suffix of `output` is in `COMPRESSIONS`.
    """
    output = as_path(output)
    suffix = output.suffix if output.suffix in COMPRESSIONS else ""
    with atomic_path(output, suffix) as temporary, line_writer(temporary) as file:
        yield file


@contextmanager
def atomic_folder(output: Path) -> Iterator[Path]:
    """Yield an empty temporary folder that is renamed to `output` at the end.

    The temporary folder is `output` with ``.tmp`` appended. An older temporary folder is deleted.
    """
    target, temporary = real_path(output), temporary_path(output)
    with exclusive(output), write_errors(output):
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        try:
            if temporary.exists():
                shutil.rmtree(temporary)
            temporary.mkdir()
            yield temporary
            signature_path(output).unlink(missing_ok=True)  # of an older output
            _replace_folder(temporary, target)
        except OutputError as error:
            if str(temporary) not in str(error):
                raise
            raise system_error(error) or error from None  # names the folder, not the temporary one
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(temporary: Path, output: Path) -> None:
    """Rename `temporary` to `output`. An existing folder is renamed first and deleted last."""
    older = temporary.with_name(f"{temporary.name}.old")
    shutil.rmtree(older, ignore_errors=True)
    if output.exists():
        output.rename(older)
    temporary.rename(output)
    shutil.rmtree(older, ignore_errors=True)


def build_once(
    made: Path, is_done: Callable[[], bool], make: Callable[[], None], hint: str = ""
) -> None:
    """Build a shared file or folder unless it is complete. Concurrent runs wait for the first.

    Args:
        made: file or folder, which is locked
        is_done: function that returns True if `made` is complete
        make: function that builds `made`
        hint: text appended to the error message if `made` cannot be written
    """
    if is_done():
        return
    try:
        with exclusive(made, wait=True):
            if not is_done():
                make()
    except OutputError as error:
        raise OutputError(f"{error}{hint}") from None


PAUSE = 5.0
"""Min time in seconds between two saves. A killed run loses the work after the last save."""


class ResumableFiles:
    """Output files that are written together, with a state for resuming an interrupted run.

    The files have ``.tmp`` appended to their names until they are complete. The journal, named like
    the first file with ``.progress`` appended, stores the state and the size of each file. When a
    run resumes, it truncates the files to these sizes.
    """

    def __init__(self, paths: Sequence[Path], task: Mapping[str, Any], afresh: bool) -> None:
        """Lock and open the files. Resume an interrupted run, unless `afresh` is True.

        Args:
            paths: output files
            task: JSON-serializable parameters, which must equal those of an interrupted run
            afresh: whether to delete the files of an interrupted run instead of resuming it
        """
        self.paths = list(paths)
        self.task = json.loads(json_text({**task, "files": [path.name for path in paths]}))
        self.journal = journal(paths[0])
        self.state: dict[str, Any] = {}
        self._finished = False
        self.current = self.paths[0]  # the file that is being written, for errors
        self._open = ExitStack()
        self._saved = time.monotonic()
        try:
            for path in self.paths:
                self._open.enter_context(exclusive(path))
            self._files = [self._open_file(path) for path in self.paths]
            with write_errors(self.journal):
                self._resume(afresh)
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> ResumableFiles:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files. If they are unfinished, save the state. Without a state, delete them."""
        failed = self.current
        with suppress(OSError), self._open:
            if not self._finished:
                with suppress(OSError):  # on a full disk the last saved state is kept
                    if self.state:
                        self._save()
                    else:
                        self.journal.unlink(missing_ok=True)
                if not self.journal.exists():
                    for path in (*self.paths, self.journal):
                        temporary_path(path).unlink(missing_ok=True)
        self.current = failed

    def append(self, chunks: Sequence[bytes], state: Mapping[str, Any]) -> None:
        """Append a chunk to each file. `state` is the JSON-serializable state after the chunks."""
        for path, file, chunk in zip(self.paths, self._files, chunks, strict=True):
            self.current = path
            file.write(chunk)
        self._sizes = [file.tell() for file in self._files]
        self.state = deepcopy(dict(state))
        if time.monotonic() - self._saved >= PAUSE:
            self._save()

    def finish(self, signature: Signature) -> None:
        """Write the signature next to the first file, then rename the temporary files."""
        for path, file, size in zip(self.paths, self._files, self._sizes, strict=True):
            if not size:  # compressed files are never empty
                file.write(compress_chunk(b"", path.suffix))
        if self.paths[0].exists():  # a journal, so that the signature does not fit older files
            self._save()
        write_signature(signature, self.paths[0])
        self._save(finished=True)
        self._finished = True  # from here on, the next run completes the renames
        complete(self.paths)

    def _open_file(self, path: Path) -> IO[bytes]:
        with write_errors(path):
            temporary = temporary_path(path)
            if temporary.is_symlink():  # to another file
                temporary.unlink()
            temporary.touch()
            file = self._open.enter_context(temporary.open("r+b"))
            file.seek(0, os.SEEK_END)
        return file

    def _resume(self, afresh: bool) -> None:
        """Load the state and truncate the files to their saved sizes, or to 0 in a new run."""
        self._sizes = [0] * len(self.paths)
        if afresh and self.journal.exists():
            self._save()  # the older state does not fit the new bytes, if this run is killed
        elif self.journal.exists():
            try:
                note = parse_json(self.journal.read_text("utf-8"))
                task, self._sizes, self.state = note["task"], note["sizes"], note["state"]
                kinds = [*map(type, self._sizes), type(task), type(self.state)]
                if kinds != [int] * len(self.paths) + [dict, dict] or min(self._sizes) < 0:
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    f"{self.journal} is not a valid progress file for these outputs. {AGAIN}"
                ) from None
            if task != self.task:
                raise UsageError(
                    f"{self.paths[0]} was started with different settings or another input: "
                    f"{difference(task, self.task)}. {AGAIN}"
                )
        for file, size in zip(self._files, self._sizes, strict=True):
            if file.tell() < size:
                raise DataError(
                    f"{file.name} has {file.tell()} bytes. Expected at least {size}. {AGAIN}"
                )
            file.truncate(size)
            file.seek(size)

    def _save(self, finished: bool = False) -> None:
        """Flush the files to the disk, then replace the journal."""
        for path, file in zip(self.paths, self._files, strict=True):
            self.current = path
            file.flush()
            os.fsync(file.fileno())
        self.current = self.paths[0]
        note = {"task": self.task, "sizes": self._sizes, "state": self.state, "finished": finished}
        beside = temporary_path(self.journal)
        beside.unlink(missing_ok=True)  # it could be a link to another file
        beside.write_text(json_text(note, indent=None), "utf-8")
        beside.replace(self.journal)
        self._saved = time.monotonic()


def temporary_path(path: Path) -> Path:
    """Return the temporary path of an output. For a link, it is next to the link target."""
    target = real_path(path)
    return target.with_name(f"{target.name}.tmp")


def journal(path: Path) -> Path:
    """Return the journal path of a `ResumableFiles` object whose first file is `path`."""
    return path.with_name(f"{path.name}.progress")


def complete(paths: Sequence[Path]) -> None:
    """Complete a finished run: rename the remaining temporary files and delete the journal."""
    try:
        note = parse_json(journal(paths[0]).read_text("utf-8"))
        same = note["task"]["files"] == json.loads(json_text([path.name for path in paths]))
        finished = same and note["finished"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return
    if finished:
        for path in paths:
            if temporary_path(path).exists():
                temporary_path(path).replace(real_path(path))
        journal(paths[0]).unlink()


def is_done(paths: Sequence[Path], task: Mapping[str, Any]) -> bool:
    """Return True if a run has completed the files, and their signature matches `task`."""
    with suppress(OSError, ValueError):
        if journal(paths[0]).exists():
            return False
        stored = parse_json(signature_path(paths[0]).read_text("utf-8"))
        values = json.loads(json_text(task))
        same = isinstance(stored, dict) and all(stored.get(key) == values[key] for key in values)
        return same and all(path.exists() for path in paths)
    return False


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe the parameters in which two runs differ, for a message."""
    changed = [key for key in now if before.get(key) != now[key]]
    shown = [key for key in changed if not key.endswith(("_is", "_are"))]  # no sizes and times
    values = (f"{key} was {before.get(key)!r} and is {now[key]!r}" for key in shown)
    return ", ".join(values) or "an input file has changed"
