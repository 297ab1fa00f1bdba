"""What a worker does with a block of rows: what stays of it, and why the rest goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError
from fairseq_ssl.filters.chain import FilterChain
from fairseq_ssl.filters.deduplication import DuplicateFilter
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.io.blocks import RowBlock

LONGEST_EXAMPLE = 300
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Example:
    """A row that was dropped."""

    line: int
    """Its number in the files, from 1."""
    text: tuple[str, ...]
    score: Any
    """What the filter saw in it."""

    @staticmethod
    def of(line: int, row: Row, score: Any) -> Example:
        """Show a row: cut, and what can not be printed escaped."""
        named = score._asdict() if hasattr(score, "_asdict") else score
        return Example(line, tuple(map(_shown, row)), named)


@dataclass(frozen=True)
class Dropped:
    """What one filter dropped of a block, or of all so far."""

    count: int = 0
    examples: tuple[Example, ...] = ()

    def and_then(self, after: Dropped, examples: int) -> Dropped:
        """Add what was dropped later."""
        return Dropped(self.count + after.count, (self.examples + after.examples)[:examples])


@dataclass(frozen=True)
class FilteredBlock:
    """What became of a block."""

    kept: tuple[bytes, ...]
    """Its lines of each side, each with its newline."""
    rows: int
    """Rows read."""
    dropped: tuple[Dropped, ...]
    """By the filters of the chain."""
    numbers: NDArray[np.int64]
    """Of the lines that are kept, from 1 in the files."""
    hashes: NDArray[np.uint64] | None
    """Of the kept rows, where duplicates are to be found."""
    ends: tuple[int, ...]
    share: float

    def without(self, new: NDArray[np.bool_], examples: int) -> FilteredBlock:
        """Leave out the kept rows that are not new, and count them as one more filter's."""
        if new.all():
            return replace(self, dropped=(*self.dropped, Dropped()))
        sides = [data.removesuffix(b"\n").split(b"\n") for data in self.kept]
        old = np.flatnonzero(~new)
        shown = [
            Example.of(int(self.numbers[place]), tuple(_decode(side[place]) for side in sides), "")
            for place in old[:examples].tolist()
        ]
        return replace(
            self,
            kept=tuple(_joined(compress(side, new.tolist())) for side in sides),
            dropped=(*self.dropped, Dropped(len(old), tuple(shown))),
            numbers=self.numbers[new],
        )


@dataclass(frozen=True)
class CorpusFilter:
    """Filters the rows of a block; finding duplicates is left to who sees all blocks."""

    chain: FilterChain
    examples: int
    """How many of the dropped rows to show, for each filter."""

    def __call__(self, block: RowBlock) -> FilteredBlock:
        """Put the rows through the chain; each filter sees what those before have left."""
        rows = self._rows(block)
        left, dropped = list(range(len(rows))), []
        for one in self.chain.filters:
            seen = [rows[place] for place in left]
            scores = one.score(seen)
            stays = [one.accept(score) for score in scores]
            gone = [place for place, stay in enumerate(stays) if not stay]
            shown = [
                Example.of(block.first + left[place], seen[place], scores[place])
                for place in gone[: self.examples]
            ]
            dropped.append(Dropped(len(gone), tuple(shown)))
            left = list(compress(left, stays))
        duplicates = self.chain.duplicates
        return FilteredBlock(
            kept=_kept(block, left),
            rows=len(rows),
            dropped=tuple(dropped),
            numbers=np.array(left, dtype=np.int64) + block.first,
            hashes=hashes_of(duplicates, [rows[place] for place in left]) if duplicates else None,
            ends=block.ends,
            share=block.share,
        )

    def _rows(self, block: RowBlock) -> list[Row]:
        sides = range(len(block.data))
        try:
            lines = [block.lines(side) for side in sides]
        except DataError as error:
            if not self.chain.takes_any_bytes:
                raise DataError(f"{error} Or drop such lines with --filter encoding.") from None
            lines = [_decode(block.data[side].removesuffix(b"\n")).split("\n") for side in sides]
        return list(zip(*lines, strict=True))


@dataclass(frozen=True)
class CorpusHashes:
    """Hashes the rows of a block, which a run before this one has kept."""

    duplicates: DuplicateFilter

    def __call__(self, block: RowBlock) -> NDArray[np.uint64]:
        """Return the hashes."""
        lines = [map(_decode, block.raw_lines(side)) for side in range(len(block.data))]
        return hashes_of(self.duplicates, list(zip(*lines, strict=True)))


def hashes_of(duplicates: DuplicateFilter, rows: Sequence[Row]) -> NDArray[np.uint64]:
    """Return the scores of rows as an array."""
    return np.array(duplicates.score(rows), dtype=np.uint64)


def _kept(block: RowBlock, left: list[int]) -> tuple[bytes, ...]:
    """Return the lines of these places, side by side."""
    if len(left) == block.count:
        return tuple(data if data.endswith(b"\n") else data + b"\n" for data in block.data)
    sides = [block.raw_lines(side) for side in range(len(block.data))]
    return tuple(_joined(side[place] for place in left) for side in sides)


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _shown(line: str) -> str:
    cut = line if len(line) <= LONGEST_EXAMPLE else f"{line[: LONGEST_EXAMPLE - 1]}\u2026"
    whole = cut.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in whole
    )
