"""Pairs whose two sides are the same: copies that nobody has translated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.filters.filter import Row
from fairseq_ssl.text.specs import option


@dataclass(frozen=True)
class IdenticalFilter:
    """Drops pairs whose two sides are the same."""

    sides: int
    ignore_case: bool = option(False, "also those that differ in capitals only")
    ignore_spaces: bool = option(False, "also those that differ in whitespace only")

    def __post_init__(self) -> None:
        if self.sides < 2:
            raise UsageError("The filter identical compares two sides; give a SOURCE and a TARGET.")

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Tell of each row whether its sides are the same."""
        return [self._folded(row[0]) == self._folded(row[1]) for row in rows]

    def accept(self, score: bool) -> bool:
        """Let those stay whose sides differ."""
        return not score

    def _folded(self, line: str) -> str:
        if self.ignore_case:
            line = line.casefold()
        return "".join(line.split()) if self.ignore_spaces else line
