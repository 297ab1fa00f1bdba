"""Signatures: the method, parameters and version that produced a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

from fairseq_ssl._version import __version__

MAX_LENGTH = 63
"""Maximum length of a string in the short form of a signature, in characters."""
DIGITS = 8
"""Length of a digest in the short form of a signature, in hexadecimal digits."""


@dataclass(frozen=True)
class Signature:
    """The method, the parameters and the version of the package that produced a file."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    """Values that do not depend on the machine: settings, counts, and digests of models and other
    resources."""
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    """Machine-dependent values, such as paths and times, which only the JSON file contains."""
    version: str = __version__

    def __str__(self) -> str:
        """Return the short form, such as ``average|which:last|n:5|version:0.3.0``.

        Lists, mappings, and strings that contain ``|`` or are longer than `MAX_LENGTH` are shown as
        a digest. Parameters that are None or empty are omitted.
        """
        shown = [f"{key}:{_short(value)}" for key, value in self.parameters.items() if _has(value)]
        return "|".join([self.method, *shown, f"version:{self.version}"])

    def content(self) -> dict[str, Any]:
        """Return the content of the JSON file: method, version, parameters and details."""
        return {"method": self.method, "version": self.version} | self.parameters | self.details


def changed_options(config: Any, *left_out: str) -> dict[str, Any]:
    """Return the dataclass values that differ from their defaults, by name, without `left_out`."""
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


def plain_number(value: object) -> int | float:
    """Return a numpy number as an int or a float. Raise TypeError for other values."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{value!r} is not JSON-serializable. Expected a string, number, list or dict.")
