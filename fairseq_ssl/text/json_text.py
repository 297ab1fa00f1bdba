"""JSON that somebody else may have written, or cut off."""

from __future__ import annotations

import json
from typing import Any


def parsed_json(text: str | bytes) -> Any:
    """Return what JSON says; whatever is wrong with it is a ValueError, depth too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
