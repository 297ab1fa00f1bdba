"""Steps of a lattice merged to edits, and the path that has most of the gold edits.

This keeps every detail of the authors' script that can change a number: how long an edit is taken
to be, how often it is in the list of arcs, and which of several equally short paths is found.  So
the arcs are those of its Floyd-Warshall and the path is that of its Bellman-Ford.  But the lattice
has an order, so that an arc only ever grows by one step at its end, and few sweeps find the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from fairseq_ssl.metrics.maxmatch.lattice import Cell, Lattice

SMALL = 0.001
"""What an edit costs above the number of its steps."""

Arc = tuple[int, int]
"""Numbers of the cells it leaves and comes to."""
ArcEdit = tuple[int, int, str, str]
"""Start and end in the source, the words there, and what they become."""


Merged = tuple[int, int]
"""One or more steps as one edit: their number, and how many of them keep a word."""


class GoldEdit(NamedTuple):
    """What an annotator wants."""

    start: int
    end: int
    words: str
    alternatives: tuple[str, ...]

    def fits(self, edit: ArcEdit) -> bool:
        """Tell whether an edit of a system is this one."""
        return edit[:3] == self[:3] and edit[3] in self.alternatives


@dataclass(frozen=True)
class Arcs:
    """All edits of a lattice."""

    lattice: Lattice
    into: list[dict[int, Merged]]
    """By cell, then by the cell where it begins."""
    order: list[Arc]
    """As the script lists them, but an arc that is twice or more in a row only once."""
    copies: dict[Arc, int]
    """How often an arc is in the script's list, where that is more than once."""
    count: int
    """Of the script's list."""
    before: float = 0.0
    """Words kept before the first cell, which the lattice leaves out."""

    def edit(self, arc: Arc) -> ArcEdit:
        """Return what an arc does."""
        cells = self.lattice.cells
        return edit_between(self.lattice, cells[arc[0]], cells[arc[1]])


def edit_between(lattice: Lattice, before: Cell, after: Cell) -> ArcEdit:
    """Return what an edit from one cell to another does."""
    row, column = divmod(before, lattice.width)
    end_row, end_column = divmod(after, lattice.width)
    return (
        row,
        end_row,
        " ".join(lattice.source[row:end_row]),
        " ".join(lattice.output[column:end_column]),
    )


def merged_arcs(lattice: Lattice, unchanged: int, most: int) -> Arcs | None:
    """Merge steps to edits with at most so many words kept; None if there are more than `most`."""
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
        if len(order) > most:
            return None
    longer, looked_at = _without_kept(into, order[first:], lead % 2 == 0)
    count += 2 * (lead + rest) + lead // 2 + len(longer) + (rest + (not looked_at)) // 2
    return Arcs(lattice, into, order[:first] + longer, copies, count, float(lead))


def _single(
    lattice: Lattice,
) -> tuple[list[dict[int, Merged]], list[list[tuple[int, int]]], list[Arc], dict[Arc, int]]:
    """Return the steps: by the cell they come to, by the cell they leave, and in order."""
    cells, source, output = lattice.cells, lattice.source, lattice.output
    number = {cell: place for place, cell in enumerate(cells)}
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
    """Take out arcs of several words kept; the script does not look at what follows one.

    Returns what is left, and whether the script would look at another arc.
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
    """The best path for one annotator after the other."""

    def __init__(self, arcs: Arcs) -> None:
        self.arcs = arcs
        into = arcs.into
        self._place = {arc: place for place, arc in enumerate(arcs.order)}
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
                for _ in range(times - 1):  # one by one: a product rounds in another way
                    dearer[arc] += SMALL
        if dearer:
            self._plain = self._weighed(dearer)
        self._heads: dict[int, list[int]] = {}
        width = arcs.lattice.width
        for head, cell in enumerate(arcs.lattice.cells):
            self._heads.setdefault(cell // width, []).append(head)
        self._found: dict[frozenset[tuple[Arc, float]], list[ArcEdit]] = {}

    def best(self, gold: Sequence[GoldEdit]) -> list[ArcEdit]:
        """Return the edits of the path that has most of the gold edits."""
        favoured = self._favoured(gold)
        key = frozenset(favoured.items())
        if key not in self._found:
            self._found[key] = self._path(self._shortest(favoured))
        return self._found[key]

    def _weighed(self, weights: dict[Arc, float]) -> list[tuple[int, int, float]]:
        """Return all arcs with their weights, of which some are others."""
        if len(self._place) < len(self._plain):  # some arc is listed twice
            return [(t, h, weights.get((t, h), weight)) for t, h, weight in self._plain]
        arcs = self._plain.copy()
        for arc, weight in weights.items():
            arcs[self._place[arc]] = (*arc, weight)
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
        """Return the arcs with this span."""
        lattice, into = self.arcs.lattice, self.arcs.into
        found = [
            (tail, head)
            for head in self._heads.get(end, ())
            for tail in into[head]
            if lattice.cells[tail] // lattice.width == start
        ]
        return sorted(found)

    def _favoured(self, gold: Sequence[GoldEdit]) -> dict[Arc, float]:
        """Return the weights of arcs at gold edits: far below zero where they are the same."""
        found: dict[Arc, float] = {}
        low = -self.arcs.count
        for span in {edit[:2] for edit in gold}:
            wanted = [edit for edit in gold if edit[:2] == span]
            here = self._at(*span)
            if span[0] == span[1] and here:
                edits = {arc: self.arcs.edit(arc) for arc in here}
                found.update(self._insertions(edits, wanted, low))
                continue
            lengths = {words_of(text) for edit in wanted for text in edit.alternatives}
            for arc in here:
                if self._written(arc, span) not in lengths:
                    continue
                done = self.arcs.edit(arc)
                if any(each.fits(done) for each in wanted):
                    found[arc] = low
        return found

    def _written(self, arc: Arc, span: tuple[int, int]) -> int:
        """Return how many words an arc of this span writes."""
        lattice = self.arcs.lattice
        distance = lattice.cells[arc[1]] - lattice.cells[arc[0]]
        return distance - (span[1] - span[0]) * lattice.width

    def _insertions(
        self, edits: dict[Arc, ArcEdit], wanted: Sequence[GoldEdit], low: int
    ) -> dict[Arc, float]:
        """Weigh insertions at one place."""
        arcs = self.arcs
        here = [arc for arc in edits for _ in range(arcs.copies.get(arc, 1))]
        favoured, passed = shared_out(here, edits, wanted)
        found: dict[Arc, float] = {
            arc: low if arc in favoured else arcs.into[arc[1]][arc[0]][0] for arc in edits
        }
        for arc in passed:
            found[arc] += SMALL
        return found

    def _shortest(self, favoured: dict[Arc, float]) -> list[int]:
        """Return for each cell where the shortest path to it comes from.

        Of equal ones that which sweeps over the list find first, as in the script, with its
        rounding.  Sweeps end when one changes nothing; that is soon, as the list is in order.
        """
        arcs = self._weighed(favoured) if favoured else self._plain
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


def words_of(text: str) -> int:
    """Count the words of a text with single spaces between them."""
    return text.count(" ") + 1 if text else 0


def shared_out(
    here: Sequence[Arc], edits: dict[Arc, ArcEdit], wanted: Sequence[GoldEdit]
) -> tuple[set[Arc], list[Arc]]:
    """Find which insertions at one place are gold edits, a gold edit for one of them.

    The script goes through both lists from both ends in turn.  Returns also the insertions that it
    passes by, each as often as it does.
    """
    favoured: set[Arc] = set()
    passed: list[Arc] = []
    ends, unused, side = [0, len(here) - 1], [0, len(wanted) - 1], 0
    while ends[0] <= ends[1]:
        if ends[0] == ends[1]:
            side = 0
        arc, step = here[ends[side]], (1, -1)[side]
        choices = range(unused[0], unused[1] + 1)[::step]
        match = next((i for i in choices if wanted[i].fits(edits[arc])), None)
        ends[side] += step
        if match is None:
            passed.append(arc)
            side = 1 - side
            continue
        favoured.add(arc)
        unused[side] = match + step
        while 0 <= ends[side] < len(here) and here[ends[side]][side] != arc[1 - side]:
            passed.append(here[ends[side]])
            ends[side] += step
    return favoured, passed
