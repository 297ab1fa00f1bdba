"""All the cheapest ways to make one sentence of another, as a lattice of single steps.

The cheapest ways are looked for twice: with a price of 1 for putting one word in another's place,
and with a price of 2, which is that of taking it out and putting the other in.  Instead of two
tables, each column of a table is the bits of one number (Hyyrö, 2003), so that only the cells on a
cheapest way are ever looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

Cell = int
"""Words of the source before it times the width of the table, plus words of the output."""
Tables = tuple[list[int], list[int], list[int]]
"""By column, in whose rows a cheapest way can pair words, delete, insert: a bit for a row."""

DEAREST = 1_000_000


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
    left_out: tuple[int, int] = (0, 0)
    """Words at either end that every way keeps, and that have no cells."""

    @cached_property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self.output) + 1

    def is_same(self, before: Cell, after: Cell) -> bool:
        """Tell whether a step keeps a word."""
        row, column = divmod(before, self.width)
        if after - before != self.width + 1 or column == len(self.output):
            return False
        return self.source[row] == self.output[column]


def lattice(
    source: Sequence[str], output: Sequence[str], most: int = DEAREST, kept: int | None = None
) -> Lattice:
    """Find all steps of the cheapest ways from source to output; at most so many cells.

    With `kept`, no more than so many of the words that all of them keep at either end.
    """
    lead = _surely_kept(source, output)
    rest = _surely_kept(source[lead:][::-1], output[lead:][::-1])
    end, width = len(source) - rest, len(output) + 1
    places: dict[str, int] = {}
    for number, word in enumerate(source[lead:end], 1):
        places[word] = places.get(word, 0) | 1 << number
    matches = [places.get(word, 0) for word in output[lead : len(output) - rest]]
    tables = (_by_price_one(matches, end - lead), _by_price_two(matches, end - lead))
    steps = _steps(*tables, end - lead, (lead, lead, width), most)
    left_out = (0, 0) if kept is None else (max(0, lead - kept), max(0, rest - kept))
    diagonal = width + 1
    first, last = left_out[0] * diagonal, len(source) * width + len(output)
    for cell in range(first + diagonal, (lead + 1) * diagonal, diagonal):
        steps[cell] = {cell - diagonal: 2}
    for cell in range(last - left_out[1] * diagonal, last - rest * diagonal, -diagonal):
        steps[cell] = {cell - diagonal: 2}
    if first < lead * diagonal:
        steps[first] = {}
    return Lattice(source, output, sorted(steps), steps, left_out)


def _surely_kept(source: Sequence[str], output: Sequence[str]) -> int:
    """Return how many of the first words every cheapest way keeps.

    A word that stands once in either sentence, behind the same words, is kept by all of them:
    without it a way has to change the number of words once more on either side of it.
    """
    alike = 0
    for one, other in zip(source, output, strict=False):
        if one != other:
            break
        alike += 1
    while alike and not source.count(source[alike - 1]) == output.count(source[alike - 1]) == 1:
        alike -= 1
    return alike


def _steps(
    first: Tables, second: Tables, length: int, at: tuple[int, int, int], most: int
) -> dict[Cell, dict[Cell, int]]:
    """Go back from the end over every step that a cheapest way of either table takes.

    The tables are of a part of the lattice: `at` has its first row and column, and the whole
    width.  They are looked up as one, the second above the first, so that two bits tell in which
    of them a cheapest way comes to a cell.
    """
    above = length + 1
    pairs, deletes, inserts = (
        [one | two << above for one, two in zip(*both, strict=True)]
        for both in zip(first, second, strict=True)
    )
    top, left, width = at
    both = 1 | 1 << above
    times = {1: 1, 1 << above: 1, both: 2}
    steps: dict[Cell, dict[Cell, int]] = {}
    row_above = {len(pairs) - 1: both}
    begin = (top + length) * width + left
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
        if len(steps) > most:
            raise TooWideError
        begin -= width
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
