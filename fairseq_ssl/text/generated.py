"""What fairseq-generate prints, sorted by the numbers of its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fairseq_ssl.errors import DataError


def generated(lines: Iterable[str], field: str) -> Iterator[str]:
    """Return fairseq-generate's lines of one kind, the first of each number, by number."""
    found: dict[int, str] = {}
    for line in lines:
        numbered = re.match(rf"{field}-(\d+)\t", line)
        if numbered:
            found.setdefault(int(numbered[1]), line.split("\t", 2 if field == "H" else 1)[-1])
    if not found:
        raise DataError(
            f"There is no line that begins with {field}-0. Expected what fairseq-generate prints."
        )
    missing = next((n for n in range(len(found)) if n not in found), None)
    if missing is not None:
        raise DataError(
            f"There is no {field}-{missing}: the output of fairseq-generate is cut off."
        )
    return iter([found[number] for number in sorted(found)])
