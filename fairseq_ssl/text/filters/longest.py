"""A limit for each side in a unit of its own (thesis, section 5.2.1 and footnote 4 of 5.3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.text.filters.filter import Row
from fairseq_ssl.text.specs import option

UNITS = ("tokens", "characters")


@dataclass(frozen=True)
class LongestFilter:
    """Drops what is too long on one side, such as English in tokens, Japanese in characters.

    A side as long as its limit stays. Characters are code points, and whitespace is none, so
    that cutting a Japanese sentence into words does not make it longer.
    """

    source: int = option(500, "what the source has at most; 0: no limit")
    source_unit: str = option("tokens", "tokens or characters without spaces")
    target: int = option(500, "what the target has at most; 0: no limit")
    target_unit: str = option("characters", "tokens or characters without spaces")

    def __post_init__(self) -> None:
        for unit in (self.source_unit, self.target_unit):
            if unit not in UNITS:
                raise UsageError(
                    f"The filter longest has the unit {unit!r}.{nearest(unit, UNITS)} Units: "
                    f"{', '.join(UNITS)}."
                )
        if min(self.source, self.target) < 0:
            raise UsageError(
                f"The filter longest has source={self.source} and target={self.target}; expected "
                "0 or more."
            )

    def score(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        """Measure each side in its unit."""
        units = (self.source_unit, self.target_unit)
        return [
            tuple(_length(line, unit) for line, unit in zip(row, units, strict=False))
            for row in rows
        ]

    def accept(self, score: tuple[int, ...]) -> bool:
        """Tell whether no side is over its limit."""
        return all(
            length <= limit or limit == 0
            for length, limit in zip(score, (self.source, self.target), strict=False)
        )


def _length(line: str, unit: str) -> int:
    tokens = line.split()
    return len(tokens) if unit == "tokens" else sum(map(len, tokens))
