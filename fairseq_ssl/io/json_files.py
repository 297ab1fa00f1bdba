"""JSON that somebody else may have written, or cut off."""

from __future__ import annotations

import json
from typing import Any

MAX_BITS = 1000
"""Size of an integer; a float can hold those of 1023 bits."""


def parse_json(text: str | bytes) -> Any:
    """Return the content of JSON; raise a ValueError for anything wrong with it.

    That includes nesting too deep for Python, integers too large for a float, and halves of
    surrogate pairs, which no file in UTF-8 can hold.
    """
    try:
        found = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    escape = "\\ud" if isinstance(text, str) else b"\\ud"
    if escape in text.lower():  # type: ignore[operator]
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


def _integer(digits: str) -> int:
    number = int(digits)
    if number.bit_length() > MAX_BITS:
        raise ValueError("it has an integer that is too large")
    return number
