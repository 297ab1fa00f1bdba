"""Rows that have been seen before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.text.filters.filter import Row
from fairseq_ssl.text.specs import option

BY = ("pair", "source", "target")


@dataclass(frozen=True)
class DuplicateFilter:
    """Drops what was there before: of equal pairs, or lines, the first stays.

    A row's score is a hash of 64 bits of its bytes; among a thousand million different rows,
    the chance that any two share one is 3 in 100. Whether it stays is for one table to say, that
    of `seen_table`: it must know all rows before.
    """

    sides: int
    by: str = option("pair", "what has to be equal: pair, source or target")

    def __post_init__(self) -> None:
        if self.by not in BY:
            raise UsageError(
                f"The filter duplicates has by={self.by}.{nearest(self.by, BY)} It compares by "
                f"{', '.join(BY)}."
            )
        if self.by == "target" and self.sides < 2:
            raise UsageError("The filter duplicates has by=target, but there is only a SOURCE.")

    def score(self, rows: Sequence[Row]) -> list[int]:
        """Return the hash of each row."""
        side = slice(None) if self.by == "pair" else slice(BY.index(self.by) - 1, BY.index(self.by))
        return [_hash("\n".join(row[side])) for row in rows]


def _hash(text: str) -> int:
    raw = text.encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")
