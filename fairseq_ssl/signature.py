"""Signatures: the method, parameters and version that produced a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.outputs import atomic_path, is_device, signature_path
from fairseq_ssl.io.text_files import json_text, open_bytes


@dataclass(frozen=True)
class Signature:
    """The method, the parameters and the version of the package that produced a file."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    version: str = __version__

    def __str__(self) -> str:
        """Return the short form, such as ``average|which:last|n:5|version:0.2.0``.

        It omits parameters that are not numbers, booleans or strings of under 32 characters.
        """
        named = [f"{key}:{value}" for key, value in self.parameters.items() if _is_short(value)]
        return "|".join([self.method, *named, f"version:{self.version}"])

    def write_beside(self, path: Path) -> Path:
        """Write the signature as JSON to `path` plus the suffix ``.json``. Return the new path.

        A device or a pipe gets no signature.
        """
        beside = signature_path(path)
        content = {"method": self.method, "version": self.version, **self.parameters}
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


def data_params(folder: str | Path | None) -> dict[str, Any]:
    """Return a data folder and a digest of each of its dictionaries, as parameters of a job.

    Dictionaries that fairseq-preprocess writes again without a change have the same digests.
    """
    digests = {}
    for path in sorted(Path(folder).glob("dict.*")) if folder else []:
        with open_bytes(path, compressed=False) as file:
            digests[path.name] = hashlib.sha256(file.read()).hexdigest()[:16]
    return {"data_dir": folder and str(folder), "dictionaries": digests}


def _is_short(value: Any) -> bool:
    return isinstance(value, Real) or (isinstance(value, str) and len(value) < 32)
