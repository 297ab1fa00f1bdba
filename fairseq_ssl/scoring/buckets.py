"""Ranges of numbers, such as lengths, that are looked at together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bucket:
    """The numbers from `first` to `last`, both included."""

    first: int
    last: int | None
    """None: no end."""

    def __contains__(self, number: int) -> bool:
        return self.first <= number and (self.last is None or number <= self.last)

    def __str__(self) -> str:
        """Return ``11-20``, or ``71-`` for the last."""
        return f"{self.first}-{'' if self.last is None else self.last}"


def buckets(ends: Sequence[int]) -> list[Bucket]:
    """Return the buckets 1 to the first end, and so on; the last goes on without end."""
    starts = [1, *(end + 1 for end in ends)]
    return [Bucket(start, end) for start, end in zip(starts, [*ends, None], strict=True)]
