"""Filtering of blocks of rows, with counts and examples of the dropped rows."""

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
"""Max characters per line of an example."""


@dataclass(frozen=True)
class DroppedRow:
    """An example of a dropped row."""

    line: int
    """Line number in the files, from 1."""
    text: tuple[str, ...]
    score: Any
    """Score of the row by the filter that dropped the row, as JSON types."""

    @staticmethod
    def of(line: int, row: Row, score: Any) -> DroppedRow:
        """Create an example with truncated lines and escaped unprintable characters."""
        return DroppedRow(line, tuple(map(_printable, row)), _plain_score(score))


@dataclass(frozen=True)
class DropCount:
    """Number and examples of the rows dropped by one filter."""

    filter: str
    """Name of the filter with all options."""
    count: int = 0
    examples: tuple[DroppedRow, ...] = ()
    """The first dropped rows."""

    def merge(self, later: DropCount, examples: int) -> DropCount:
        """Return the sum of both counts, with at most `examples` examples."""
        shown = (self.examples + later.examples)[:examples]
        return DropCount(self.filter, self.count + later.count, shown)


@dataclass(frozen=True)
class FilteredBlock:
    """Kept lines of a block, with the counts of read and dropped rows."""

    kept: tuple[bytes, ...]
    """Kept lines of each side, including newlines."""
    rows: int
    """Number of rows read."""
    dropped: tuple[DropCount, ...]
    """Counts and examples of the dropped rows, one item per filter."""
    numbers: NDArray[np.int64]
    """Line numbers of the kept rows in the files, from 1."""
    hashes: NDArray[np.uint64] | None
    """Hashes of the kept rows, if the chain has the filter ``duplicates``."""
    ends: tuple[int, ...]
    """Offset after the block in each file, in bytes."""
    share: float
    """Share of the input that is read after this block, 0 to 1."""

    def drop_duplicates(self, new: NDArray[np.bool_], name: str, examples: int) -> FilteredBlock:
        """Drop the kept rows for which `new` is False, and count them under `name`."""
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
    """Picklable function that applies a filter chain to a block of rows.

    The filter ``duplicates`` is applied later, by the process that receives all blocks.
    """

    chain: FilterChain
    examples: int
    """Max number of examples per filter."""

    def __call__(self, block: RowBlock) -> FilteredBlock:
        """Return the rows that pass all filters except ``duplicates``, with counts and hashes."""
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
    """Apply all filters except ``duplicates``, each to the rows kept by the previous filters.

    Args:
        chain: filters
        rows: rows to filter
        first: line number of the first row
        examples: max number of examples per filter

    Returns:
        Indices of the kept rows, and the dropped rows of each filter.
    """
    left, dropped = list(range(len(rows))), []
    for name, one in zip(chain.names, chain.filters, strict=False):
        seen = [rows[row] for row in left]
        scores = one.score(seen)
        if len(scores) != len(seen):
            raise UsageError(
                f"The filter {name} returned {len(scores)} scores for {len(seen)} rows. Expected "
                "one score per row."
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
    """Picklable function that hashes the rows of a block, to resume an interrupted run."""

    duplicates: DuplicateFilter

    def __call__(self, block: RowBlock) -> NDArray[np.uint64]:
        """Return one hash per row of the block, [rows]."""
        lines = [map(_decode, block.raw_lines(side)) for side in range(len(block.data))]
        return hash_rows(self.duplicates, list(zip(*lines, strict=True)))


def hash_rows(duplicates: DuplicateFilter, rows: Sequence[Row]) -> NDArray[np.uint64]:
    """Return one 64-bit hash per row, [rows]."""
    return np.array(duplicates.score(rows), dtype=np.uint64)


def _kept_lines(block: RowBlock, left: list[int]) -> tuple[bytes, ...]:
    """Return the lines of each side at the row indices `left`, including newlines."""
    if len(left) == block.count:
        return tuple(data if data.endswith(b"\n") else data + b"\n" for data in block.data)
    sides = [block.raw_lines(side) for side in range(len(block.data))]
    return tuple(_join_lines(side[row] for row in left) for side in sides)


def _join_lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _plain_score(score: Any) -> Any:
    """Convert a score to JSON types. Convert other types to strings."""
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
