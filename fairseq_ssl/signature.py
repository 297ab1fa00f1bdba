"""Signatures: the method, parameters and version that produced a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.outputs import atomic_path, is_device, signature_path
from fairseq_ssl.io.text_files import json_text, plain_number

MAX_LENGTH = 63
"""Max length of a string in the short form of a signature."""
DIGITS = 8
"""Number of hexadecimal digits of a digest in the short form."""


@dataclass(frozen=True)
class Signature:
    """The method, the parameters and the version of the package that produced a file."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    """Settings, counts, and digests of models and other resources, equal on all machines."""
    details: dict[str, Any] = field(default_factory=dict)
    """Further values for the JSON file that differ between machines, such as paths and times."""
    version: str = __version__

    def __str__(self) -> str:
        """Return the short form, such as ``average|which:last|n:5|version:0.2.0``.

        Lists, mappings, and strings that contain ``|`` or are longer than `MAX_LENGTH` are shown as
        a digest. Parameters that are None or empty are omitted.
        """
        shown = [f"{key}:{_short(value)}" for key, value in self.parameters.items() if _has(value)]
        return "|".join([self.method, *shown, f"version:{self.version}"])

    def write_beside(self, path: Path) -> Path:
        """Write the signature as JSON to `path` plus the suffix ``.json``. Return the new path.

        A device or a pipe gets no signature.
        """
        beside = signature_path(path)
        content = {"method": self.method, "version": self.version}
        content |= self.parameters | self.details
        if not is_device(path):
            with atomic_path(beside) as temporary:
                temporary.write_text(f"{json_text(content)}\n", encoding="utf-8", newline="\n")
        return beside


def file_fingerprint(path: str | Path) -> list[int]:
    """Return the size in bytes and the modification time in nanoseconds of a file.

    For a folder, return the total size and the latest time of its files, without subfolders.
    """
    path = Path(path)
    try:
        parts = [part for part in path.iterdir() if part.is_file()] if path.is_dir() else [path]
        stats = [part.stat() for part in parts]
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    return [sum(one.st_size for one in stats), max((one.st_mtime_ns for one in stats), default=0)]


def content_digest(*paths: str | Path) -> str:
    """Return a short digest of the contents of files and of the files in folders.

    It does not depend on paths and modification times. Subfolders are skipped. The digest of a pipe
    or a device is empty, since it can be read only once.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        files += sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]
    if any(map(is_device, files)):
        return ""
    return _digest_of(*((file, *file_fingerprint(file)) for file in files))


@lru_cache
def _digest_of(*files: tuple[Any, ...]) -> str:
    """Return a digest of the contents of files, which are read once while they do not change."""
    return checksum(*(path for path, *_ in files))[:16]


def checksum(*paths: Path) -> str:
    """Return the SHA-256 checksum of the concatenated contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def data_params(folder: str | Path | None) -> dict[str, Any]:
    """Return a data folder and a digest of each of its dictionaries, as parameters of a job.

    Dictionaries that fairseq-preprocess writes again without a change have the same digests.
    """
    paths = sorted(Path(folder).glob("dict.*")) if folder else []
    digests = {path.name: content_digest(path) for path in paths}
    return {"data_dir": folder and str(folder), "dictionaries": digests}


def changed_options(config: Any, *left_out: str) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, without `left_out`."""
    values = {option.name: getattr(config, option.name) for option in fields(config)}
    return {
        option.name: values[option.name]
        for option in fields(config)
        if option.name not in left_out and values[option.name] != option.default
    }


def _has(value: Any) -> bool:
    return isinstance(value, Real) or bool(value)


def _short(value: Any) -> Any:
    is_short = isinstance(value, str) and len(value) <= MAX_LENGTH and "|" not in value
    if is_short or isinstance(value, Real):
        return value
    text = json.dumps(value, sort_keys=True, default=plain_number)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
