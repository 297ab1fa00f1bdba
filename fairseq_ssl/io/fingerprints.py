"""Fingerprints, digests and checksums of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from fairseq_ssl.io.outputs import is_device
from fairseq_ssl.io.remote import as_path, list_files
from fairseq_ssl.io.text_files import reading_errors, text_files


def file_fingerprint(path: str | Path) -> list[int]:
    """Return the size in bytes and the modification time in nanoseconds of a file.

    For a glob or a folder, return the total size and the latest time of its files. Subfolders are
    skipped.
    """
    path = as_path(path)
    with reading_errors(path):
        if path.is_dir():
            stats = list(list_files(path).values())
        else:
            stats = [file.stat() for file in text_files(path)]
    times = (stat.st_mtime_ns for stat in stats)
    return [sum(stat.st_size for stat in stats), max(times, default=0)]


def content_digest(*paths: str | Path) -> str:
    """Return a short digest of file contents. Each path is a file, a glob or a folder.

    The digest does not depend on paths or modification times. Subfolders are skipped. If any path
    is a pipe or a device, which can be read only once, the digest is an empty string.
    """
    files: list[Path] = []
    for path in map(as_path, paths):
        names = sorted(list_files(path)) if path.is_dir() else None
        files += text_files(path) if names is None else [path / name for name in names]
    if any(map(is_device, files)):
        return ""
    return _digest_of(*((file, *file_fingerprint(file)) for file in files))


@lru_cache
def _digest_of(*files: tuple[Any, ...]) -> str:
    """Return a digest of file contents. It is cached by path, size and modification time."""
    return checksum(*(path for path, *_ in files))[:16]


def checksum(*paths: Path, new: Callable[[], Any] = hashlib.sha256) -> str:
    """Return a hexadecimal checksum of the concatenated contents of files (default: SHA-256)."""
    digest = new()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return str(digest.hexdigest())


def data_params(folder: str | Path | None) -> dict[str, Any]:
    """Return a data folder and the digests of its dictionaries, as job parameters.

    The digests stay the same if fairseq-preprocess writes the same dictionaries again.
    """
    paths = sorted(Path(folder).glob("dict.*")) if folder else []
    digests = {path.name: content_digest(path) for path in paths}
    return {"data_dir": folder and str(folder), "dictionaries": digests}
