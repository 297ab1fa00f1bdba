"""Lattice of all minimal edit scripts between two sentences.

As in m2scorer, the lattice combines the minimal edit scripts of two edit distances, in which a
substitution costs 1 or 2. Each column of a distance table is a bit vector in one integer (Hyyrö,
2003), so Python visits only cells on minimal paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

Cell = int
"""Cell index: source position times the width of the lattice, plus output position."""
Tables = tuple[list[int], list[int], list[int]]
"""Steps on minimal paths in three tables: matches and substitutions, deletions, insertions.

Each table contains one bit vector per column, with one bit per row.
"""

MAX_CELLS = 1_000_000
"""Maximum number of cells in a lattice."""


class TooWideError(Exception):
    """Raised if a lattice has too many cells."""


@dataclass(frozen=True)
class Lattice:
    """Cells on minimal paths, in row-major order, and the steps between them."""

    source: Sequence[str]
    output: Sequence[str]
    cells: list[Cell]
    steps: dict[Cell, dict[Cell, int]]
    """Number of edit distances (1 or 2) with a minimal path over a step, by end and start cell."""

    @cached_property
    def width(self) -> int:
        """Number of cells per row."""
        return len(self.output) + 1

    def is_same(self, before: Cell, after: Cell) -> bool:
        """Return True if the step between two cells keeps a word."""
        row, column = divmod(before, self.width)
        if after - before != self.width + 1 or column == len(self.output):
            return False
        return self.source[row] == self.output[column]


def lattice(source: Sequence[str], output: Sequence[str], max_cells: int = MAX_CELLS) -> Lattice:
    """Return the lattice of all minimal paths from the source words to the output words.

    Raises:
        TooWideError: if the lattice has more than `max_cells` cells
    """
    rows_of: dict[str, int] = {}
    for number, word in enumerate(source, 1):
        rows_of[word] = rows_of.get(word, 0) | 1 << number
    matches = [rows_of.get(word, 0) for word in output]
    length = len(source)
    tables = (_unit_cost_tables(matches, length), _double_cost_tables(matches, length))
    steps = _steps(*tables, length, max_cells)
    return Lattice(source, output, sorted(steps), steps)


def _steps(
    first: Tables, second: Tables, length: int, max_cells: int
) -> dict[Cell, dict[Cell, int]]:
    """Collect the steps of all minimal paths, backward from the last cell.

    Args:
        first: tables of the first distance
        second: tables of the second distance
        length: number of source words
        max_cells: maximum number of cells, above which `TooWideError` is raised

    The bits of `second` are shifted above the bits of `first`, so that one operation reads both.
    """
    above = length + 1
    pairs, deletes, inserts = (
        [bits | more_bits << above for bits, more_bits in zip(*both, strict=True)]
        for both in zip(first, second, strict=True)
    )
    width = len(pairs)
    both = 1 | 1 << above
    times = {1: 1, 1 << above: 1, both: 2}
    steps: dict[Cell, dict[Cell, int]] = {}
    row_above = {width - 1: both}
    begin = length * width
    for row in range(length, -1, -1):
        here, row_above = row_above, {}
        waiting = sorted(here)
        while waiting:
            column = waiting.pop()
            come = here[column]
            cell = begin + column
            into = steps[cell] = {}
            if taken := pairs[column] >> row & come:
                into[cell - width - 1] = times[taken]
                row_above[column - 1] = row_above.get(column - 1, 0) | taken
            if taken := deletes[column] >> row & come:
                into[cell - width] = times[taken]
                row_above[column] = row_above.get(column, 0) | taken
            if taken := inserts[column] >> row & come:
                into[cell - 1] = times[taken]
                if column - 1 not in here:
                    waiting.append(column - 1)
                here[column - 1] = here.get(column - 1, 0) | taken
        if len(steps) > max_cells:
            raise TooWideError
        begin -= width
    return steps


def _unit_cost_tables(matches: list[int], length: int) -> Tables:
    """Compute the tables of the Levenshtein distance, in which a substitution costs 1."""
    every = (2 << length) - 2
    more, less = every, 0  # the distance is higher, or lower, than in the cell above
    pairs, deletes, inserts = [0], [every], [0]
    for match in matches:
        equal = match | less
        same = ((((equal & more) + more) ^ more) | equal) & every  # same as in the diagonal cell
        right_more = less | every & ~(same | more)
        right_less = same & more
        shifted = (right_more << 1 | 2) & every
        more = (right_less << 1 | ~(same | shifted)) & every
        less = shifted & same
        pairs.append(match | every & ~same)
        deletes.append(more)
        inserts.append(right_more | 1)
    return pairs, deletes, inserts


def _double_cost_tables(matches: list[int], length: int) -> Tables:
    """Compute the tables of the distance in which a substitution costs 2 (LCS distance)."""
    every = (2 << length) - 2
    level = every  # the length is the same as in the cell above
    pairs, deletes, inserts = [0], [every], [0]
    for match in matches:
        moved = level & match
        now = (level + moved | level - moved) & every
        longer = level ^ now  # prefix parity: is the length higher than to the left
        level = now
        shift = 1
        while shift <= length:
            longer ^= longer << shift
            shift *= 2
        right = ~longer & (every | 1)
        pairs.append(match | level & right << 1)
        deletes.append(level)
        inserts.append(right)
    return pairs, deletes, inserts
