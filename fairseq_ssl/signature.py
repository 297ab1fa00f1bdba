"""What made a file: method, parameters and version, in one line and in a JSON file beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ssl._version import __version__
from fairseq_ssl.io.atomic import atomic_path


@dataclass(frozen=True)
class Signature:
    """A method and its parameters, as sacrebleu writes them down for a score."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    version: str = __version__

    def __str__(self) -> str:
        """Return the short form, such as ``average|which:last|n:5|version:0.1.0``."""
        named = [f"{key}:{value}" for key, value in self.parameters.items() if _is_short(value)]
        return "|".join([self.method, *named, f"version:{self.version}"])

    def write_beside(self, path: Path) -> Path:
        """Write all of it to `path` with ``.json`` appended, and return that path."""
        beside = path.with_name(path.name + ".json")
        content = {"method": self.method, "version": self.version, **self.parameters}
        with atomic_path(beside) as temporary:
            temporary.write_text(f"{json_text(content)}\n", encoding="utf-8", newline="\n")
        return beside


def json_text(content: Any, indent: int | None = 2) -> str:
    """Return JSON in UTF-8, also where the locale is not, and Python escapes file names."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    return decoded(text).encode("utf-8", "backslashreplace").decode("utf-8")


def decoded(name: str) -> str:
    """Return a file name as UTF-8 says it, where Python has escaped its bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _is_short(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) < 32)
