"""Filtering of a block of rows: which rows are kept, and why the others are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.filters.chain import FilterChain
from fairseq_ssl.filters.deduplication import DuplicateFilter
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.io.blocks import RowBlock

MAX_EXAMPLE_LENGTH = 300
"""Characters of a line in an example."""


@dataclass(frozen=True)
class DroppedRow:
    """An example of a dropped row."""

    line: int
    """Line number in the files, from 1."""
    text: tuple[str, ...]
    score: Any
    """The score of the filter that dropped it."""

    @staticmethod
    def of(line: int, row: Row, score: Any) -> DroppedRow:
        """Truncate a row, and escape characters that are not printable."""
        return DroppedRow(line, tuple(map(_printable, row)), _plain_score(score))


@dataclass(frozen=True)
class DropCount:
    """Rows dropped by one filter."""

    filter: str
    """Its name with all options."""
    count: int = 0
    examples: tuple[DroppedRow, ...] = ()
    """The first dropped rows."""

    def merge(self, later: DropCount, examples: int) -> DropCount:
        """Add rows dropped later, keeping this number of examples."""
        shown = (self.examples + later.examples)[:examples]
        return DropCount(self.filter, self.count + later.count, shown)


@dataclass(frozen=True)
class FilteredBlock:
    """A block after the filters."""

    kept: tuple[bytes, ...]
    """Kept lines of each side, each with its newline."""
    rows: int
    """Rows read."""
    dropped: tuple[DropCount, ...]
    """Dropped rows by filter."""
    numbers: NDArray[np.int64]
    """Line numbers of the kept rows, from 1 in the files."""
    hashes: NDArray[np.uint64] | None
    """Hashes of the kept rows, if duplicates are dropped."""
    ends: tuple[int, ...]
    share: float

    def drop_duplicates(self, new: NDArray[np.bool_], name: str, examples: int) -> FilteredBlock:
        """Drop the kept rows that are not new."""
        if new.all():
            return replace(self, dropped=(*self.dropped, DropCount(name)))
        sides = [data.removesuffix(b"\n").split(b"\n") for data in self.kept]
        old = np.flatnonzero(~new)
        shown = [
            DroppedRow.of(int(self.numbers[row]), tuple(_decode(side[row]) for side in sides), "")
            for row in old[:examples].tolist()
        ]
        return replace(
            self,
            kept=tuple(_join_lines(compress(side, new.tolist())) for side in sides),
            dropped=(*self.dropped, DropCount(name, len(old), tuple(shown))),
            numbers=self.numbers[new],
        )


@dataclass(frozen=True)
class CorpusFilter:
    """Filters the rows of a block. Duplicates are dropped by the process that sees all blocks."""

    chain: FilterChain
    examples: int
    """Dropped rows to show, for each filter."""

    def __call__(self, block: RowBlock) -> FilteredBlock:
        """Filter the rows of a block."""
        rows = self._rows(block)
        left, dropped = filter_rows(self.chain, rows, block.first, self.examples)
        duplicates = self.chain.duplicates
        return FilteredBlock(
            kept=_kept_lines(block, left),
            rows=len(rows),
            dropped=tuple(dropped),
            numbers=np.array(left, dtype=np.int64) + block.first,
            hashes=hash_rows(duplicates, [rows[row] for row in left]) if duplicates else None,
            ends=block.ends,
            share=block.share,
        )

    def _rows(self, block: RowBlock) -> list[Row]:
        sides = range(len(block.data))
        try:
            lines = [block.lines(side) for side in sides]
        except DataError as error:
            if not self.chain.accepts_any_bytes:
                raise DataError(f"{error} Or drop such lines with the filter encoding.") from None
            lines = [_decode(block.data[side].removesuffix(b"\n")).split("\n") for side in sides]
        return list(zip(*lines, strict=True))


def filter_rows(
    chain: FilterChain, rows: Sequence[Row], first: int = 1, examples: int = 0
) -> tuple[list[int], list[DropCount]]:
    """Return the indices of the kept rows, and the dropped rows of each filter but duplicates.

    Each filter sees the rows that the previous filters have kept.
    """
    left, dropped = list(range(len(rows))), []
    for name, one in zip(chain.names, chain.filters, strict=False):
        seen = [rows[row] for row in left]
        scores = one.score(seen)
        if len(scores) != len(seen):
            raise UsageError(
                f"The filter {name} returned {len(scores)} scores for {len(seen)} rows. Expected a "
                "score for each row."
            )
        accepted = [bool(one.accept(score)) for score in scores]
        rejected = [row for row, is_kept in enumerate(accepted) if not is_kept]
        shown = [
            DroppedRow.of(first + left[row], seen[row], scores[row]) for row in rejected[:examples]
        ]
        dropped.append(DropCount(name, len(rejected), tuple(shown)))
        left = list(compress(left, accepted))
    return left, dropped


@dataclass(frozen=True)
class CorpusHashes:
    """Hashes the rows of a block that an interrupted run has written."""

    duplicates: DuplicateFilter

    def __call__(self, block: RowBlock) -> NDArray[np.uint64]:
        """Return the hashes."""
        lines = [map(_decode, block.raw_lines(side)) for side in range(len(block.data))]
        return hash_rows(self.duplicates, list(zip(*lines, strict=True)))


def hash_rows(duplicates: DuplicateFilter, rows: Sequence[Row]) -> NDArray[np.uint64]:
    """Return the hashes of rows as an array."""
    return np.array(duplicates.score(rows), dtype=np.uint64)


def _kept_lines(block: RowBlock, left: list[int]) -> tuple[bytes, ...]:
    """Return these lines of each side."""
    if len(left) == block.count:
        return tuple(data if data.endswith(b"\n") else data + b"\n" for data in block.data)
    sides = [block.raw_lines(side) for side in range(len(block.data))]
    return tuple(_join_lines(side[row] for row in left) for side in sides)


def _join_lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _plain_score(score: Any) -> Any:
    """Return a score as JSON has it; other types as text."""
    if hasattr(score, "_asdict"):
        score = score._asdict()
    if isinstance(score, dict):
        return {str(key): _plain_score(value) for key, value in score.items()}
    if isinstance(score, (list, tuple)):
        return type(score)(map(_plain_score, score))
    return score if isinstance(score, (str, int, float, bool, type(None))) else str(score)


def _printable(line: str) -> str:
    if len(line) > MAX_EXAMPLE_LENGTH:
        line = f"{line[: MAX_EXAMPLE_LENGTH - 1]}\u2026"
    text = line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
