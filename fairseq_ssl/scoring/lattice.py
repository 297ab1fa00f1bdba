"""All the cheapest ways to make one sentence of another, as a lattice of single steps.

The cheapest ways are looked for twice: with a price of 1 for putting one word in another's place,
and with a price of 2, which is that of taking it out and putting the other in.  Instead of two
tables, each column of a table is the bits of one number (Hyyrö, 2003), so that only the cells on a
cheapest way are ever looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cell = int
"""Words of the source before it times the width of the table, plus words of the output."""
Tables = tuple[list[int], list[int], list[int]]
"""By column, in whose rows a cheapest way can pair words, delete, insert: a bit for a row."""

DEAREST = 1_000_000
NEVER = (0, 0)


class TooWideError(Exception):
    """There are more cells than can be looked at."""


@dataclass(frozen=True)
class Lattice:
    """Cells in their order, and the steps between them."""

    source: Sequence[str]
    output: Sequence[str]
    cells: list[Cell]
    steps: dict[Cell, dict[Cell, int]]
    """By the cell they lead to, then by the cell they leave: in how many of the two tables."""

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self.output) + 1

    def is_same(self, before: Cell, after: Cell) -> bool:
        """Tell whether a step keeps a word."""
        row, column = divmod(before, self.width)
        if after - before != self.width + 1 or column == len(self.output):
            return False
        return self.source[row] == self.output[column]


def lattice(source: Sequence[str], output: Sequence[str], most: int = DEAREST) -> Lattice:
    """Find all steps of the cheapest ways from source to output; at most so many cells."""
    places: dict[str, int] = {}
    for number, word in enumerate(source, 1):
        places[word] = places.get(word, 0) | 1 << number
    matches = [places.get(word, 0) for word in output]
    tables = (_by_price_one(matches, len(source)), _by_price_two(matches, len(source)))
    steps = _steps(*tables, len(source), most)
    return Lattice(source, output, sorted(steps), steps)


def _steps(first: Tables, second: Tables, length: int, most: int) -> dict[Cell, dict[Cell, int]]:
    """Go back from the end over every step that a cheapest way of either table takes."""
    pairs, deletes, inserts = (
        list(zip(*both, strict=True)) for both in zip(first, second, strict=True)
    )
    width = len(pairs)
    steps: dict[Cell, dict[Cell, int]] = {}
    row_above: dict[int, tuple[int, int]] = {width - 1: (1, 1)}
    for row in range(length, -1, -1):
        here, row_above = row_above, {}
        waiting = sorted(here)
        while waiting:
            column = waiting.pop()
            one, two = here[column]
            cell = row * width + column
            into = steps[cell] = {}
            a, b = pairs[column]
            a, b = one & a >> row, two & b >> row
            if a or b:
                into[cell - width - 1] = a + b
                x, y = row_above.get(column - 1, NEVER)
                row_above[column - 1] = (x | a, y | b)
            a, b = deletes[column]
            a, b = one & a >> row, two & b >> row
            if a or b:
                into[cell - width] = a + b
                x, y = row_above.get(column, NEVER)
                row_above[column] = (x | a, y | b)
            a, b = inserts[column]
            a, b = one & a >> row, two & b >> row
            if a or b:
                into[cell - 1] = a + b
                x, y = here.get(column - 1, NEVER)
                if column - 1 not in here:
                    waiting.append(column - 1)
                here[column - 1] = (x | a, y | b)
        if len(steps) > most:
            raise TooWideError
    return steps


def _by_price_one(matches: list[int], length: int) -> Tables:
    """Compare Levenshtein distances of neighbouring cells by the bits of their differences."""
    every = (2 << length) - 2
    more, less = every, 0  # than the cell above
    pairs, deletes, inserts = [0], [every], [0]
    for match in matches:
        found = match | less
        same = ((((found & more) + more) ^ more) | found) & every  # as the cell above and before
        right_more = less | every & ~(same | more)
        right_less = same & more
        shifted = (right_more << 1 | 2) & every
        more = (right_less << 1 | ~(same | shifted)) & every
        less = shifted & same
        pairs.append(match | every & ~same)
        deletes.append(more)
        inserts.append(right_more | 1)
    return pairs, deletes, inserts


def _by_price_two(matches: list[int], length: int) -> Tables:
    """Compare the lengths of longest common subsequences in the same way."""
    every = (2 << length) - 2
    level = every  # where it is as long as in the cell above
    pairs, deletes, inserts = [0], [every], [0]
    for match in matches:
        moved = level & match
        now = (level + moved | level - moved) & every
        longer = level ^ now  # sums of these bits tell where it is longer than in the cell before
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
