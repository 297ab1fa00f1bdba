"""Filter blocks of rows, and collect counts and examples of the dropped rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.filters.chain import FilterChain
from fairseq_ssl.filters.deduplication import DuplicateFilter, Hashes
from fairseq_ssl.filters.rules import Filter, LengthFilter, LineSizes, Row
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.parts import EXAMPLES, BlockResult

Indices: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Scores: TypeAlias = "Sequence[Any] | NDArray[Any]"

MAX_EXAMPLE_LENGTH = 300
"""Maximum number of characters per line of an example."""


@dataclass(frozen=True)
class DroppedRow:
    """An example of a dropped row."""

    line: int
    """Line number in the files, starting at 1."""
    text: tuple[str, ...]
    score: Any
    """Score from the filter that dropped the row, converted to a JSON-serializable value."""

    @staticmethod
    def of(line: int, row: Row, score: Any) -> DroppedRow:
        """Create an example from a row. Truncate long lines and escape unprintable characters."""
        return DroppedRow(line, tuple(map(_printable, row)), _plain_score(score))


@dataclass(frozen=True)
class DropCount:
    """Number and examples of the rows that a filter dropped."""

    filter: str
    """Specification of the filter with all options, such as ``duplicates:by=pair:near=0.0``."""
    count: int = 0
    examples: tuple[DroppedRow, ...] = ()
    """The first rows that the filter dropped."""


def filter_block(chain: FilterChain, block: Block) -> BlockResult:
    """Apply all filters except ``duplicates`` to a block. Return the rows that pass them.

    The count and examples of the rows that a filter drops have the filter's index as key. If the
    chain contains ``duplicates``, the result includes the `RowKeys` of the kept rows.
    """
    is_valid = True
    try:
        for side in range(len(block.data)):
            block.text(side)
    except DataError as error:
        if not chain.accepts_any_bytes:
            raise DataError(f"{error} Or drop such lines with the filter encoding.") from None
        is_valid = False
    rows = BlockRows(block, is_valid)
    left, dropped = filter_rows(chain, rows)
    result = rows.select(left)
    result.counts.update({str(index): drop.count for index, drop in enumerate(dropped)})
    examples = {str(index): list(map(asdict, drop.examples)) for index, drop in enumerate(dropped)}
    keys = None
    if chain.duplicates is not None:
        keys = RowKeys(left, chain.duplicates.keys(rows.raw_rows(left)))
    return replace(result, examples=examples, keys=keys)


@dataclass(frozen=True)
class RowKeys:
    """Deduplication keys of a block's rows that pass all filters except ``duplicates``."""

    rows: Indices
    """Row indices in the block, [rows]."""
    keys: Hashes
    """Result of `DuplicateFilter.keys`, [rows, keys, 2]."""


def drop_rows(result: BlockResult, rows: Indices, is_new: Bools, kind: str) -> BlockResult:
    """Drop duplicate rows from the result of a block. Add their count and examples.

    Args:
        result: result of a block, which contains the rows that pass the other filters
        rows: indices of these rows in the block, [rows]
        is_new: False for each row to drop, [rows]
        kind: key under which the count and the examples of dropped rows are stored
    """
    if is_new.all():
        return result
    sides = [data.removesuffix(b"\n").split(b"\n") for data in result.outputs]
    old = np.flatnonzero(~is_new)
    examples = [
        asdict(DroppedRow.of(int(rows[row]) + 1, tuple(_decode(side[row]) for side in sides), ""))
        for row in old[:EXAMPLES].tolist()
    ]
    return BlockResult(
        tuple(_join_lines([*compress(side, is_new.tolist())]) for side in sides),
        result.counts + Counter({"kept": -len(old), kind: len(old)}),
        {**result.examples, kind: examples},
    )


@dataclass(frozen=True)
class BlockRows:
    """The rows of a block. The block is split into lines and measured only if needed."""

    block: Block
    is_valid: bool = True
    """False if a side is not valid UTF-8."""

    def __len__(self) -> int:
        return self.block.count

    @cached_property
    def raw_lines(self) -> list[list[bytes]]:
        """Lines of each side as bytes."""
        return [self.block.raw_lines(side) for side in range(len(self.block.data))]

    @cached_property
    def sizes(self) -> list[LineSizes]:
        """Line sizes of each side, in tokens and characters."""
        if self.is_valid:
            return list(map(LineSizes, self.block.data))
        return [LineSizes(_decode(data).encode("utf-8", "replace")) for data in self.block.data]

    def take(self, indices: Indices) -> list[Row]:
        """Return the rows at these indices."""
        sides = (map(_decode, side) for side in self._raw_sides(indices))
        return list(zip(*sides, strict=True))

    def raw_rows(self, indices: Indices) -> list[tuple[bytes, ...]]:
        """Return the rows at these indices as bytes."""
        return list(zip(*self._raw_sides(indices), strict=True))

    def select(self, indices: Indices) -> BlockResult:
        """Return the rows at these indices, with the counts of all rows and of kept rows."""
        if len(indices) == len(self):
            outputs = tuple(d if d.endswith(b"\n") else d + b"\n" for d in self.block.data)
        else:
            outputs = tuple(map(_join_lines, self._raw_sides(indices)))
        return BlockResult(outputs, Counter({"lines": len(self), "kept": len(indices)}))

    def _raw_sides(self, indices: Indices) -> list[list[bytes]]:
        if len(indices) == len(self):
            return self.raw_lines
        rows = indices.tolist()
        return [list(map(side.__getitem__, rows)) for side in self.raw_lines]


def filter_rows(
    chain: FilterChain, rows: Sequence[Row] | BlockRows
) -> tuple[Indices, list[DropCount]]:
    """Apply all filters except ``duplicates``, each to the rows that earlier filters keep.

    Return the indices of the kept rows, and the count and examples of each filter's dropped rows.
    """
    left, dropped = np.arange(len(rows)), []
    for name, rule in zip(chain.names, chain.filters, strict=False):
        scores = _score(rule, rows, left)
        if len(scores) != len(left):
            raise UsageError(
                f"The filter {name} returned {len(scores)} scores for {len(left)} rows. "
                "Expected one score per row."
            )
        accepted = _accept(rule, scores)
        first_rejected = np.flatnonzero(~accepted)[:EXAMPLES]
        examples_at = left[first_rejected]
        dropped_rows = map(
            DroppedRow.of,
            (examples_at + 1).tolist(),
            _take(rows, examples_at),
            [scores[row] for row in first_rejected.tolist()],
        )
        dropped.append(DropCount(name, int((~accepted).sum()), tuple(dropped_rows)))
        left = left[accepted]
    return left, dropped


def _score(rule: Filter[Any], rows: Sequence[Row] | BlockRows, left: Indices) -> Scores:
    if isinstance(rule, LengthFilter) and isinstance(rows, BlockRows):
        return rule.measure(rows.sizes)[left]
    return rule.score(_take(rows, left)) if len(left) else []


def _accept(rule: Filter[Any], scores: Scores) -> Bools:
    if isinstance(rule, LengthFilter) and len(scores):
        accepted: Bools = rule.accept(scores)
        return accepted
    return np.array([bool(rule.accept(score)) for score in scores], dtype=np.bool_)


def _take(rows: Sequence[Row] | BlockRows, indices: Indices) -> list[Row]:
    if isinstance(rows, BlockRows):
        return rows.take(indices)
    return [rows[row] for row in indices.tolist()]


def hash_block(duplicates: DuplicateFilter, block: Block) -> Hashes:
    """Return the deduplication keys of a block of rows that an interrupted run kept."""
    lines = map(block.raw_lines, range(len(block.data)))
    return duplicates.keys(list(zip(*lines, strict=True)))


def _join_lines(lines: Sequence[bytes]) -> bytes:
    return b"\n".join([*lines, b""])


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _plain_score(score: Any) -> Any:
    """Convert a score to a JSON-serializable value. Values of other types become strings."""
    if isinstance(score, np.void):
        score = {name: score[name] for name in score.dtype.names or ()}
    if hasattr(score, "_asdict"):
        score = score._asdict()
    if isinstance(score, np.ndarray | np.integer):
        score = score.tolist()
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
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )
