"""Paths in object stores and remote file systems, opened with the package fsspec.

Store errors are raised as `OSError`, as for local paths.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path, PosixPath
from typing import Any

from fairseq_ssl.errors import DataError, FairseqSslError, first_line, import_optional

URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
READ_AHEAD = 2**22
"""Size of a read request in bytes. The s3fs default would use 50 MiB per open file."""
OBJECT_STORES = ("abfs", "abfss", "az", "gcs", "gs", "memory", "s3", "s3a")
"""URL schemes of stores in which objects become visible only when they are complete."""
TIMES = ("LastModified", "mtime", "modified", "created")
"""Metadata keys of the modification time in different stores."""
RETRIES = {"mode": "standard", "total_max_attempts": 10}
"""Retry settings for S3, unless the user has configured retries in fsspec or botocore."""
ATTEMPTS = "AWS_MAX_ATTEMPTS"
"""Environment variable for botocore's maximum number of attempts per request."""
TRANSFERS = 10
"""Max number of s3fs read attempts per object if the connection breaks."""
ERRORS = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
}


def as_path(value: str | Path) -> Path:
    """Return a `Path`, or a `RemotePath` for a URL such as ``s3://bucket/key``."""
    if isinstance(value, RemotePath):
        return value
    url = URL.match(os.fspath(value))
    if url is None:
        return Path(value)
    scheme, rest = url.groups()
    if scheme == "file":
        return Path(rest)
    if rest[:1] in ("", "/"):
        raise DataError(
            f"{value} contains no bucket or host. Expected a URL such as: s3://bucket/file"
        )
    return RemotePath(value)


class RemotePath(PosixPath):
    """URL of a file or a folder that fsspec opens.

    A file is read like a local file. It is written in one operation, `write_bytes` or `upload`, so
    that other processes never read an incomplete file.
    """

    def __str__(self) -> str:
        return super().__str__().replace(":", "://", 1).replace(":///", "://", 1)

    def __fspath__(self) -> str:
        """Raise DataError. Functions that need a local path call this method."""
        raise DataError(
            f"{self} is a URL. Expected a local path. Only texts can be read from URLs."
        )

    def absolute(self) -> RemotePath:
        """Return the path itself, because URLs are absolute."""
        return self

    def resolve(self, strict: bool = False) -> RemotePath:
        """Return the path itself, because URLs contain no symbolic links."""
        return self

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """Open the file for reading, as in `Path.open`."""
        if mode not in ("r", "rt", "rb"):
            raise io.UnsupportedOperation(
                f"{self} can only be opened for reading. Write a local file and upload it."
            )
        store, key = self._store()
        with _store_errors(self):
            opened = store.open(key, "rb", block_size=READ_AHEAD)
        file = CheckedFile(opened, partial(_store_errors, self))
        if mode == "rb" and not buffering:
            return file
        buffered = io.BufferedReader(file)
        return buffered if mode == "rb" else io.TextIOWrapper(buffered, encoding, errors, newline)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the file type, the size and the modification time."""
        store, key = self._store()
        with _store_errors(self):
            return _status(store.info(key))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if the path is an existing file or folder."""
        return self._mode() != 0

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if the path is an existing file."""
        return stat.S_ISREG(self._mode())

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True for a folder, or for a prefix of object names that ends before a slash."""
        return stat.S_ISDIR(self._mode())

    def _mode(self) -> int:
        """Return the mode of the file or folder, or 0 if it does not exist."""
        try:
            return self.stat().st_mode
        except FileNotFoundError:
            return 0

    def iterdir(self) -> Generator[RemotePath, None, None]:
        """Yield the files and the folders in a folder."""
        yield from (self / name for name in list_entries(self))

    def glob(self, pattern: str, **options: Any) -> Iterator[RemotePath]:  # type: ignore[override]
        """Yield the files and the folders below this folder that match a pattern."""
        store, key = self._store()
        with _store_errors(self):
            found = store.glob(f"{key.rstrip('/')}/{pattern}")
        start = len(key.rstrip("/")) + 1
        return (self / name[start:] for name in found)

    def rmdir(self) -> None:
        """Do nothing. In a store, folders without files do not exist."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the file."""
        store, key = self._store()
        try:
            with _store_errors(self):
                store.rm_file(key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def write_bytes(self, data: Any) -> int:
        """Write the file in a single operation. Return the number of bytes."""
        store, key = self._store()
        with _store_errors(self):
            store.pipe_file(key, bytes(data))
        return len(data)

    def _store(self) -> tuple[Any, str]:
        """Return the file system and the path in it. fsspec caches file systems per process."""
        fsspec = import_optional("fsspec", f"The URL {self}", "scale")
        scheme = self.parts[0].rstrip(":")
        with _store_errors(self):
            options = fsspec.get_filesystem_class(scheme)._get_kwargs_from_urls(str(self))
            is_s3 = scheme in ("s3", "s3a")
            is_set = "config_kwargs" in fsspec.config.conf.get(scheme, {}) or ATTEMPTS in os.environ
            if is_s3 and not is_set:
                options["config_kwargs"] = {"retries": RETRIES}
            # Other processes write and list the same folders.
            store = fsspec.filesystem(scheme, **options, use_listings_cache=False)
            if is_s3:
                store.retries = TRANSFERS
            return store, store._strip_protocol(str(self))


def upload(local: Path, target: Path) -> None:
    """Move a complete local file to a path, so that the target is never incomplete.

    Args:
        local: file, on the same file system as a local target
        target: local path or URL
    """
    if not isinstance(target, RemotePath):
        local.replace(target)
        return
    store, key = target._store()
    with _store_errors(target):
        if target.parts[0].rstrip(":") in OBJECT_STORES:
            store.put_file(str(local), key)
        else:
            store.makedirs(key.rpartition("/")[0], exist_ok=True)
            store.put_file(str(local), f"{key}.tmp")
            store.mv(f"{key}.tmp", key)
        size, expected = store.info(key)["size"], local.stat().st_size
        if size != expected:
            raise OSError(f"{size} of {expected} bytes were written")
    local.unlink()


def delete_folder(folder: Path) -> None:
    """Delete a folder if it exists. A folder in a store must not contain subfolders."""
    if not isinstance(folder, RemotePath):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir() if folder.is_dir() else ():
        path.unlink(missing_ok=True)


def list_entries(folder: Path) -> dict[str, os.stat_result]:
    """Return the `stat` result of each entry in a folder, by name. Broken links are skipped."""
    if not isinstance(folder, RemotePath):
        return {path.name: path.stat() for path in folder.iterdir() if path.exists()}
    store, key = folder._store()
    with _store_errors(folder):
        entries = store.ls(key, detail=True)
    names = {entry["name"].rstrip("/"): entry for entry in entries}
    names.pop(key.rstrip("/"), None)  # an empty object for the folder, in some stores
    return {name.rpartition("/")[2]: _status(entry) for name, entry in names.items()}


def list_files(folder: Path) -> dict[str, os.stat_result]:
    """Return the `stat` result of each file in a folder, by name. Subfolders are skipped."""
    entries = list_entries(folder).items()
    return {name: status for name, status in entries if stat.S_ISREG(status.st_mode)}


class CheckedFile(io.RawIOBase):
    """Binary reader that wraps a file and converts its exceptions.

    Args:
        fileobj: binary file to wrap
        errors: function that returns a context manager, which converts exceptions
    """

    def __init__(self, fileobj: Any, errors: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self.fileobj, self._errors = fileobj, errors
        self._read = getattr(fileobj, "read1", fileobj.read)  # at most one read of a pipe

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` requires."""
        return True

    def seekable(self) -> bool:
        """Return True if the file is seekable."""
        return bool(self.fileobj.seekable())

    def tell(self) -> int:
        """Return the byte offset of the next read."""
        return int(self.fileobj.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a byte offset, and return it."""
        with self._errors():
            return int(self.fileobj.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        """Read up to `len(buffer)` bytes. Return their number, 0 only at the end of the file."""
        with self._errors():
            data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the reader and the wrapped file."""
        if not self.closed:
            self.fileobj.close()
        super().close()


@contextmanager
def _store_errors(path: RemotePath) -> Iterator[None]:
    """Convert a store's exceptions, which are of many types, to `OSError`."""
    try:
        yield
    except FairseqSslError:
        raise
    except ImportError as error:
        raise DataError(f"{path} cannot be opened: {first_line(error).rstrip('.')}.") from error
    except Exception as error:
        for kind, number in ERRORS.items():
            if isinstance(error, kind):
                raise OSError(number, os.strerror(number), str(path)) from error
        raise OSError(errno.EIO, first_line(error), str(path)) from error


def _status(entry: dict[str, Any]) -> os.stat_result:
    """Convert fsspec's file information to an `os.stat_result`."""
    kind = stat.S_IFDIR if entry["type"] == "directory" else stat.S_IFREG
    time = next((entry[name] for name in TIMES if entry.get(name) is not None), 0)
    seconds = time.timestamp() if isinstance(time, datetime) else float(time)
    numbers = [kind, 0, 0, 0, 0, 0, entry["size"] or 0, int(seconds), int(seconds), int(seconds)]
    return os.stat_result(numbers, {"st_mtime_ns": int(seconds * 1e9)})
