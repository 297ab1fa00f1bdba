"""What every filter does: it gives each row a score, and says which scores may stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

Row = tuple[str, ...]
"""A line of each side: one of monolingual text, two of a pair.

A byte that is not UTF-8 stands in it as a lone surrogate.
"""

Score = TypeVar("Score")


class Filter(Protocol[Score]):
    """A rule whose verdict on a row depends on that row alone."""

    def score(self, rows: Sequence[Row]) -> list[Score]:
        """Return what the rule looks at, for each row of a block."""

    def accept(self, score: Score) -> bool:
        """Tell whether a row with this score stays."""
