"""Signatures: the method, parameters and version that produced a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ssl._version import __version__
from fairseq_ssl.io.atomic import atomic_path


@dataclass(frozen=True)
class Signature:
    """A method and its parameters, in the short form of sacreBLEU's signatures or as JSON."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    version: str = __version__

    def __str__(self) -> str:
        """Return the short form, such as ``average|which:last|n:5|version:0.1.0``."""
        named = [f"{key}:{value}" for key, value in self.parameters.items() if _is_short(value)]
        return "|".join([self.method, *named, f"version:{self.version}"])

    def write_beside(self, path: Path) -> Path:
        """Write the signature to `path` with ``.json`` appended. Return the new path."""
        beside = path.with_name(path.name + ".json")
        content = {"method": self.method, "version": self.version, **self.parameters}
        with atomic_path(beside) as temporary:
            temporary.write_text(f"{json_text(content)}\n", encoding="utf-8", newline="\n")
        return beside


def json_text(content: Any, indent: int | None = 2) -> str:
    """Return JSON that can be encoded as UTF-8, whatever bytes its file names have."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    return decode_file_name(text).encode("utf-8", "backslashreplace").decode("utf-8")


def decode_file_name(name: str) -> str:
    """Decode the surrogate escapes in a file name that are valid UTF-8.

    They occur if the locale is not UTF-8.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _is_short(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) < 32)
