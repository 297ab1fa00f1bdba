"""A number of a noise that its user may set, told of where it stands."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def option(default: float | bool | str, meaning: str) -> Any:
    """Declare a field with its default and what it is for; `kinds` reads both."""
    return field(default=default, metadata={"meaning": meaning})
