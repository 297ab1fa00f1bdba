"""Find the best path through a lattice with too many arcs for `ArcPaths`.

For sentences with little in common, m2scorer takes minutes. This dynamic program stores the best
path to each cell for each state: between edits, or inside an edit with a certain number of kept
words. Its time is linear in the number of cells. As in m2scorer, the path has the most gold edits,
then the fewest steps, then the fewest edits. Only ties in all three criteria can be broken
differently.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from fairseq_ssl.metrics.maxmatch.lattice import Cell, Lattice
from fairseq_ssl.metrics.maxmatch.merged_arcs import (
    Arc,
    ArcEdit,
    GoldEdit,
    edit_between,
    match_insertions,
    merged_arcs,
)

EDIT = 1
STEP = 1 << 20
GOLD = 1 << 42
FAR = 1 << 80
MAX_SPAN_ARCS = 10_000
"""Maximum number of arcs to compute for one gold edit."""
SHORT = 100
"""Insertions are limited to the longest gold correction in rows of this many cells or more."""


class WidePaths:
    """Search for the path with the most gold edits of an annotator, without a list of arcs."""

    def __init__(self, lattice: Lattice, unchanged: int) -> None:
        self._lattice = lattice
        self._unchanged = unchanged
        self._number = {cell: index for index, cell in enumerate(lattice.cells)}

    def best(self, gold: Sequence[GoldEdit]) -> list[ArcEdit]:
        """Return the edits on the path with the most gold edits."""
        favored: dict[int, set[int]] = {}
        for tail, head in self._gold_arcs(gold):
            favored.setdefault(head, set()).add(tail)
        parents = self._parents(favored)
        states = len(parents)
        node, state, end, path = len(self._number) - 1, 0, 0, []
        while node or state:
            before, before_state = divmod(parents[state][node], states)
            if state == 0 and before_state:  # end of an edit
                end = node
            elif state == 0 and not self._is_same(before, node):
                path.append(self._edit(before, node))
            elif state and before_state == 0:
                path.append(self._edit(before, end))
            node, state = before, before_state
        return path[::-1]

    def _is_same(self, before: int, after: int) -> bool:
        cells = self._lattice.cells
        return self._lattice.is_same(cells[before], cells[after])

    def _edit(self, before: int, after: int) -> ArcEdit:
        """Return the edit between the cells with the indices `before` and `after`."""
        cells = self._lattice.cells
        return edit_between(self._lattice, cells[before], cells[after])

    def _parents(self, favored: dict[int, set[int]]) -> list[list[int]]:
        """Return predecessors, [state][cell], encoded as cell index * number of states + state."""
        lattice, count = self._lattice, self._unchanged + 2
        costs = [[FAR] * len(self._number) for _ in range(count)]
        parents = [[0] * len(self._number) for _ in range(count)]
        costs[0][0] = 0
        for head, cell in enumerate(lattice.cells):
            for before in lattice.steps[cell]:
                tail = self._number[before]
                for after, cost, state in _onward(costs, tail, lattice.is_same(before, cell)):
                    if cost < costs[after][head]:
                        costs[after][head] = cost
                        parents[after][head] = tail * count + state
            for tail in sorted(favored.get(head, ())):
                cost = costs[0][tail] - GOLD + EDIT
                if cost < costs[0][head]:
                    costs[0][head] = cost
                    parents[0][head] = tail * count
            for state in range(1, count):
                if costs[state][head] < costs[0][head]:
                    costs[0][head] = costs[state][head]
                    parents[0][head] = head * count + state
        return parents

    def _gold_arcs(self, gold: Sequence[GoldEdit]) -> Iterator[Arc]:
        """Yield the arcs that match gold edits."""
        lattice = self._lattice
        for position in sorted({edit.start for edit in gold if edit.start == edit.end}):
            gold_edits = [edit for edit in gold if edit.start == edit.end == position]
            yield from self._insertions(self._row(position), gold_edits)
        for edit in gold:
            if edit.start == edit.end:
                continue
            begin = edit.start * lattice.width
            row = self._row(edit.start)
            for text in edit.alternatives:
                words = text.split()
                for cell in row:
                    column = cell - begin
                    end = edit.end * lattice.width + column + len(words)
                    if (
                        end in self._number
                        and end > cell
                        and lattice.output[column : column + len(words)] == words
                        and self._is_edit(cell, end, edit)
                    ):
                        yield self._number[cell], self._number[end]

    def _row(self, number: int) -> list[Cell]:
        """Return the cells in the lattice row that follows `number` source words."""
        cells, begin = self._lattice.cells, number * self._lattice.width
        return cells[bisect_left(cells, begin) : bisect_left(cells, begin + self._lattice.width)]

    def _insertions(self, row: list[Cell], gold: list[GoldEdit]) -> set[Arc]:
        """Return the insertions in a row that match gold edits, one to one."""
        longest = max(len(text.split()) for edit in gold for text in edit.alternatives) + 1
        while longest > 2 and longest * len(row) > MAX_SPAN_ARCS:
            longest -= 1
        here: list[Arc] = []
        edits: dict[Arc, ArcEdit] = {}
        for cell in row:
            for after in range(cell + 1, cell + 1 + (len(row) if len(row) < SHORT else longest)):
                copies = self._lattice.steps.get(after, {}).get(after - 1)
                if copies is None:
                    break
                arc = (self._number[cell], self._number[after])
                edits[arc] = self._edit(*arc)
                here += [arc] * (copies if after == cell + 1 else 1)
        return match_insertions(here, edits, gold)[0]

    def _is_edit(self, begin: int, end: int, gold_edit: GoldEdit) -> bool:
        """Return True if the arc from `begin` to `end` matches the gold edit.

        The arc must contain at most the allowed number of unchanged words.
        """
        lattice = self._lattice
        (row, column), (end_row, end_column) = (
            divmod(cell, lattice.width) for cell in (begin, end)
        )
        inside = [
            cell
            for r in range(row, end_row + 1)
            for cell in range(r * lattice.width + column, r * lattice.width + end_column + 1)
            if cell in self._number
        ]
        known = set(inside)
        steps = {
            cell: {k: v for k, v in lattice.steps[cell].items() if k in known} for cell in inside
        }
        part = Lattice(lattice.source, lattice.output, inside, steps)
        arcs = merged_arcs(part, self._unchanged, MAX_SPAN_ARCS)
        last = len(inside) - 1
        if arcs is None or 0 not in arcs.into[last]:
            return False
        return gold_edit.fits(arcs.edit((0, last)))


def _onward(costs: list[list[int]], cell: int, same: bool) -> Iterator[tuple[int, int, int]]:
    """Yield (next state, cost, previous state) of a step from `cell`, for each possible state."""
    for state, of_state in enumerate(costs):
        cost = of_state[cell] + STEP
        if not same:
            yield (state, cost, state) if state else (1, cost + EDIT, 0)
        elif state == 0:
            yield 0, cost, 0
        elif state + 1 < len(costs):
            yield state + 1, cost, state
