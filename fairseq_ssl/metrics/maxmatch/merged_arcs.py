"""Steps of a lattice merged into edits, and the path with the most gold edits.

Every detail of the authors' script that can change a score is kept: the length of an edit, the
number of its copies in the list of arcs, and which one of several shortest paths is taken. So the
arcs are those of the script's Floyd-Warshall, and the path is that of its Bellman-Ford. Since the
lattice is ordered, an arc grows only by one step at its end, and few sweeps find the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from fairseq_ssl.metrics.maxmatch.lattice import Cell, Lattice

SMALL = 0.001
"""Cost of an edit in addition to the number of its steps."""

Arc = tuple[int, int]
"""Indices of the first and the last cell."""
ArcEdit = tuple[int, int, str, str]
"""Start and end in the source, the source words, and the output words."""


Merged = tuple[int, int]
"""One or more steps as one edit: their number, and the number of steps that keep a word."""


class GoldEdit(NamedTuple):
    """An edit of an annotator."""

    start: int
    end: int
    words: str
    alternatives: tuple[str, ...]

    def fits(self, edit: ArcEdit) -> bool:
        """Return True if an edit of a system matches."""
        return edit[:3] == self[:3] and edit[3] in self.alternatives


@dataclass(frozen=True)
class Arcs:
    """All edits of a lattice."""

    lattice: Lattice
    into: list[dict[int, Merged]]
    """By last cell, then by first cell."""
    order: list[Arc]
    """The arcs in the order of the script. Copies in succession are listed once."""
    copies: dict[Arc, int]
    """Number of copies of an arc in the list of the script, if more than one."""
    count: int
    """Length of the list of the script."""
    before: float = 0.0
    """Number of words before the first cell, which the lattice omits."""

    def edit(self, arc: Arc) -> ArcEdit:
        """Return the edit of an arc."""
        cells = self.lattice.cells
        return edit_between(self.lattice, cells[arc[0]], cells[arc[1]])


def edit_between(lattice: Lattice, before: Cell, after: Cell) -> ArcEdit:
    """Return the edit from one cell to another."""
    row, column = divmod(before, lattice.width)
    end_row, end_column = divmod(after, lattice.width)
    return (
        row,
        end_row,
        " ".join(lattice.source[row:end_row]),
        " ".join(lattice.output[column:end_column]),
    )


def merged_arcs(lattice: Lattice, unchanged: int, max_arcs: int) -> Arcs | None:
    """Merge steps into edits with at most `unchanged` kept words.

    Return None if there are more than `max_arcs` edits.
    """
    lead, rest = lattice.left_out
    into, steps, order, copies = _single(lattice)
    count = sum(copies.values()) + len(order) - len(copies)
    first = len(order)
    for middle, onward in enumerate(steps):
        for tail, (length, kept) in sorted(into[middle].items()):
            for head, same in onward:
                if kept + same > unchanged:
                    continue
                found = into[head]
                before = found.get(tail)
                if before is None or length + 1 < before[0]:
                    if before is not None:
                        copies[tail, head] = copies.get((tail, head), 1) + 1
                    found[tail] = (length + 1, kept + same)
                    order.append((tail, head))
        if len(order) > max_arcs:
            return None
    longer, looked_at = _without_kept(into, order[first:], lead % 2 == 0)
    count += 2 * (lead + rest) + lead // 2 + len(longer) + (rest + (not looked_at)) // 2
    return Arcs(lattice, into, order[:first] + longer, copies, count, float(lead))


def _single(
    lattice: Lattice,
) -> tuple[list[dict[int, Merged]], list[list[tuple[int, int]]], list[Arc], dict[Arc, int]]:
    """Return the steps by last cell, by first cell, in order, and their numbers of copies."""
    cells, source, output = lattice.cells, lattice.source, lattice.output
    number = {cell: index for index, cell in enumerate(cells)}
    into: list[dict[int, Merged]] = [{} for _ in cells]
    onward: list[list[tuple[int, int]]] = [[] for _ in cells]
    copies: dict[Arc, int] = {}
    for head, cell in enumerate(cells):
        for before, times in lattice.steps[cell].items():
            tail = number.get(before)
            if tail is None:
                continue
            same = 0
            if cell - before > lattice.width:
                row, column = divmod(before, lattice.width)
                same = int(source[row] == output[column])
            into[head][tail] = (1, same)
            onward[tail].append((head, same))
            if times > 1:
                copies[tail, head] = times
    order = [(tail, head) for tail, heads in enumerate(onward) for head, _ in heads]
    return into, onward, order, copies


def _without_kept(
    into: list[dict[int, Merged]], order: list[Arc], looked_at: bool
) -> tuple[list[Arc], bool]:
    """Remove arcs that keep several words, except those after a removed arc, as in the script.

    The script removes from a list while it iterates over it, so it skips the next arc. Return the
    remaining arcs, and whether the script would look at another arc.
    """
    left: list[Arc] = []
    for arc in order:
        steps, kept = into[arc[1]][arc[0]]
        if looked_at and steps == kept > 1:
            del into[arc[1]][arc[0]]
            looked_at = False
        else:
            left.append(arc)
            looked_at = True
    return left, looked_at


class ArcPaths:
    """Search of the best path for each annotator, with all arcs listed."""

    def __init__(self, arcs: Arcs) -> None:
        self.arcs = arcs
        into = arcs.into
        self._index = {arc: index for index, arc in enumerate(arcs.order)}
        self._plain = [
            (tail, head, steps if steps == kept else steps + SMALL)
            for tail, head in arcs.order
            for steps, kept in (into[head][tail],)
        ]
        dearer = {}
        for arc, times in arcs.copies.items():
            steps, kept = into[arc[1]][arc[0]]
            if kept < steps:
                dearer[arc] = steps + SMALL
                for _ in range(times - 1):  # one by one, since a product rounds differently
                    dearer[arc] += SMALL
        if dearer:
            self._plain = self._weighed(dearer)
        self._heads: dict[int, list[int]] = {}
        width = arcs.lattice.width
        for head, cell in enumerate(arcs.lattice.cells):
            self._heads.setdefault(cell // width, []).append(head)
        self._found: dict[frozenset[tuple[Arc, float]], list[ArcEdit]] = {}

    def best(self, gold: Sequence[GoldEdit]) -> list[ArcEdit]:
        """Return the edits of the path with the most gold edits."""
        favored = self._favored(gold)
        key = frozenset(favored.items())
        if key not in self._found:
            self._found[key] = self._path(self._shortest(favored))
        return self._found[key]

    def _weighed(self, weights: dict[Arc, float]) -> list[tuple[int, int, float]]:
        """Return all arcs with their weights, some of them replaced."""
        if len(self._index) < len(self._plain):  # some arc is listed twice
            return [(t, h, weights.get((t, h), weight)) for t, h, weight in self._plain]
        arcs = self._plain.copy()
        for arc, weight in weights.items():
            arcs[self._index[arc]] = (*arc, weight)
        return arcs

    def _path(self, came: list[int]) -> list[ArcEdit]:
        node, path = len(came) - 1, []
        while node:
            steps, kept = self.arcs.into[node][came[node]]
            if kept < steps:
                path.append(self.arcs.edit((came[node], node)))
            node = came[node]
        return path[::-1]

    def _at(self, start: int, end: int) -> list[Arc]:
        """Return the arcs of a span."""
        lattice, into = self.arcs.lattice, self.arcs.into
        found = [
            (tail, head)
            for head in self._heads.get(end, ())
            for tail in into[head]
            if lattice.cells[tail] // lattice.width == start
        ]
        return sorted(found)

    def _favored(self, gold: Sequence[GoldEdit]) -> dict[Arc, float]:
        """Return the weights of arcs in spans of gold edits, far below zero for matches."""
        found: dict[Arc, float] = {}
        low = -self.arcs.count
        for span in {edit[:2] for edit in gold}:
            gold_edits = [edit for edit in gold if edit[:2] == span]
            here = self._at(*span)
            if span[0] == span[1] and here:
                edits = {arc: self.arcs.edit(arc) for arc in here}
                found.update(self._insertions(edits, gold_edits, low))
                continue
            lengths = {count_words(text) for edit in gold_edits for text in edit.alternatives}
            for arc in here:
                if self._written(arc, span) not in lengths:
                    continue
                done = self.arcs.edit(arc)
                if any(each.fits(done) for each in gold_edits):
                    found[arc] = low
        return found

    def _written(self, arc: Arc, span: tuple[int, int]) -> int:
        """Return the number of output words of an arc."""
        lattice = self.arcs.lattice
        distance = lattice.cells[arc[1]] - lattice.cells[arc[0]]
        return distance - (span[1] - span[0]) * lattice.width

    def _insertions(
        self, edits: dict[Arc, ArcEdit], gold_edits: Sequence[GoldEdit], low: int
    ) -> dict[Arc, float]:
        """Return the weights of insertions at one position."""
        arcs = self.arcs
        here = [arc for arc in edits for _ in range(arcs.copies.get(arc, 1))]
        favored, passed = match_insertions(here, edits, gold_edits)
        found: dict[Arc, float] = {
            arc: low if arc in favored else arcs.into[arc[1]][arc[0]][0] for arc in edits
        }
        for arc in passed:
            found[arc] += SMALL
        return found

    def _shortest(self, favored: dict[Arc, float]) -> list[int]:
        """Return the predecessor of each cell on its shortest path.

        Of equal paths, the first one found is taken, with the rounding of the script. Sweeps end
        when nothing changes, which is soon because the list is ordered.
        """
        arcs = self._weighed(favored) if favored else self._plain
        distances = [self.arcs.before] + [inf] * (len(self.arcs.into) - 1)
        came = [0] * len(distances)
        changed = True
        while changed:
            changed = False
            for tail, head, weight in arcs:
                distance = distances[tail] + weight
                if distance < distances[head]:
                    distances[head] = distance
                    came[head] = tail
                    changed = True
        return came


def count_words(text: str) -> int:
    """Return the number of words of a text with single spaces."""
    return text.count(" ") + 1 if text else 0


def match_insertions(
    here: Sequence[Arc], edits: dict[Arc, ArcEdit], gold_edits: Sequence[GoldEdit]
) -> tuple[set[Arc], list[Arc]]:
    """Match insertions at one position with gold edits, one to one.

    The script alternates between both ends of both lists. Return the matches, and the insertions
    that the script skips, each as often as it skips them.
    """
    favored: set[Arc] = set()
    passed: list[Arc] = []
    ends, unused, side = [0, len(here) - 1], [0, len(gold_edits) - 1], 0
    while ends[0] <= ends[1]:
        if ends[0] == ends[1]:
            side = 0
        arc, step = here[ends[side]], (1, -1)[side]
        choices = range(unused[0], unused[1] + 1)[::step]
        match = next((i for i in choices if gold_edits[i].fits(edits[arc])), None)
        ends[side] += step
        if match is None:
            passed.append(arc)
            side = 1 - side
            continue
        favored.add(arc)
        unused[side] = match + step
        while 0 <= ends[side] < len(here) and here[ends[side]][side] != arc[1 - side]:
            passed.append(here[ends[side]])
            ends[side] += step
    return favored, passed
