"""Merge lattice steps into edits, and find the path with the most gold edits.

Edit lengths, duplicate arcs and ties between shortest paths are handled as in m2scorer, so that
scores are the same. m2scorer finds arcs with the Floyd-Warshall algorithm and a path with the
Bellman-Ford algorithm. Here, the cells are in topological order. Arcs are therefore extended by one
step at a time, and few Bellman-Ford sweeps are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from fairseq_ssl.metrics.maxmatch.lattice import Cell, Lattice

SMALL = 0.001
"""Cost of an edit in addition to its number of steps."""

Arc = tuple[int, int]
"""Indices of the first and the last cell of an edit."""
ArcEdit = tuple[int, int, str, str]
"""An edit: start and end in the source, source words, output words."""


Merged = tuple[int, int]
"""Number of steps in an edit, and number of steps among them that keep a word."""


class GoldEdit(NamedTuple):
    """An annotator's edit, with its alternative corrections."""

    start: int
    end: int
    words: str
    alternatives: tuple[str, ...]

    def fits(self, edit: ArcEdit) -> bool:
        """Return True if a system's edit has the same span and one of the alternatives."""
        return edit[:3] == self[:3] and edit[3] in self.alternatives


@dataclass(frozen=True)
class Arcs:
    """All edits in a lattice, as in m2scorer's list of arcs."""

    lattice: Lattice
    into: list[dict[int, Merged]]
    """Edits by index of the last cell, and then by index of the first cell."""
    order: list[Arc]
    """Arcs in m2scorer's order. Adjacent duplicates are listed once."""
    copies: dict[Arc, int]
    """Number of times that m2scorer lists each arc, for arcs that it lists more than once."""
    count: int
    """Length of m2scorer's list of arcs."""

    def edit(self, arc: Arc) -> ArcEdit:
        """Return the source span, source words and output words of an arc."""
        cells = self.lattice.cells
        return edit_between(self.lattice, cells[arc[0]], cells[arc[1]])


def edit_between(lattice: Lattice, before: Cell, after: Cell) -> ArcEdit:
    """Return the edit formed by the source and output words between two cells."""
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

    Return None if there are more than `max_arcs` arcs.
    """
    into, steps, order, copies = _single_steps(lattice)
    count = sum(copies.values()) + len(order) - len(copies)
    first = len(order)
    for middle, onward in enumerate(steps):
        for tail, (length, kept) in sorted(into[middle].items()):
            for head, same in onward:
                if kept + same > unchanged:
                    continue
                edits = into[head]
                before = edits.get(tail)
                if before is None or length + 1 < before[0]:
                    if before is not None:
                        copies[tail, head] = copies.get((tail, head), 1) + 1
                    edits[tail] = (length + 1, kept + same)
                    order.append((tail, head))
        if len(order) > max_arcs:
            return None
    longer = _without_kept(into, order[first:])
    return Arcs(lattice, into, order[:first] + longer, copies, count + len(longer))


def _single_steps(
    lattice: Lattice,
) -> tuple[list[dict[int, Merged]], list[list[tuple[int, int]]], list[Arc], dict[Arc, int]]:
    """Return the steps by last cell, by first cell and as a list, and counts of repeated steps."""
    cells, source, output = lattice.cells, lattice.source, lattice.output
    number = {cell: index for index, cell in enumerate(cells)}
    into: list[dict[int, Merged]] = [{} for _ in cells]
    onward: list[list[tuple[int, int]]] = [[] for _ in cells]
    copies: dict[Arc, int] = {}
    for head, cell in enumerate(cells):
        for before, times in lattice.steps[cell].items():
            tail, same = number[before], 0
            if cell - before > lattice.width:
                row, column = divmod(before, lattice.width)
                same = int(source[row] == output[column])
            into[head][tail] = (1, same)
            onward[tail].append((head, same))
            if times > 1:
                copies[tail, head] = times
    order = [(tail, head) for tail, heads in enumerate(onward) for head, _ in heads]
    return into, onward, order, copies


def _without_kept(into: list[dict[int, Merged]], order: list[Arc]) -> list[Arc]:
    """Remove from `into` all arcs of several steps that change no word. Return the other arcs.

    An arc after a removed arc is never removed, because m2scorer removes items from a list while
    iterating over it, which skips the next item.
    """
    left: list[Arc] = []
    looked_at = True
    for arc in order:
        steps, kept = into[arc[1]][arc[0]]
        if looked_at and steps == kept > 1:
            del into[arc[1]][arc[0]]
            looked_at = False
        else:
            left.append(arc)
            looked_at = True
    return left


class ArcPaths:
    """Search for the path with the most gold edits of an annotator, over all arcs in a lattice."""

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
                for _ in range(times - 1):  # a product would be rounded differently
                    dearer[arc] += SMALL
        if dearer:
            self._plain = self._weighed(dearer)
        self._heads: dict[int, list[int]] = {}
        width = arcs.lattice.width
        for head, cell in enumerate(arcs.lattice.cells):
            self._heads.setdefault(cell // width, []).append(head)
        self._best: dict[frozenset[tuple[Arc, float]], list[ArcEdit]] = {}

    def best(self, gold: Sequence[GoldEdit]) -> list[ArcEdit]:
        """Return the edits on the path with the most gold edits."""
        favored = self._gold_weights(gold)
        key = frozenset(favored.items())
        if key not in self._best:
            self._best[key] = self._path(self._shortest(favored))
        return self._best[key]

    def _weighed(self, weights: dict[Arc, float]) -> list[tuple[int, int, float]]:
        """Return all arcs as (first cell, last cell, weight). `weights` overrides the defaults."""
        if len(self._index) < len(self._plain):  # some arcs are listed twice
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
        """Return the sorted arcs whose source span is `start` to `end`."""
        lattice, into = self.arcs.lattice, self.arcs.into
        return sorted(
            (tail, head)
            for head in self._heads.get(end, ())
            for tail in into[head]
            if lattice.cells[tail] // lattice.width == start
        )

    def _gold_weights(self, gold: Sequence[GoldEdit]) -> dict[Arc, float]:
        """Return the arc weights that gold edits change. Matches get large negative weights."""
        weights: dict[Arc, float] = {}
        low = -self.arcs.count
        for span in {edit[:2] for edit in gold}:
            gold_edits = [edit for edit in gold if edit[:2] == span]
            here = self._at(*span)
            if span[0] == span[1] and here:
                edits = {arc: self.arcs.edit(arc) for arc in here}
                weights.update(self._insertions(edits, gold_edits, low))
                continue
            lengths = {count_words(text) for edit in gold_edits for text in edit.alternatives}
            for arc in here:
                if self._output_length(arc, span) not in lengths:
                    continue
                edit = self.arcs.edit(arc)
                if any(gold_edit.fits(edit) for gold_edit in gold_edits):
                    weights[arc] = low
        return weights

    def _output_length(self, arc: Arc, span: tuple[int, int]) -> int:
        """Return the number of output words in an arc with the source span `span`."""
        lattice = self.arcs.lattice
        distance = lattice.cells[arc[1]] - lattice.cells[arc[0]]
        return distance - (span[1] - span[0]) * lattice.width

    def _insertions(
        self, edits: dict[Arc, ArcEdit], gold_edits: Sequence[GoldEdit], low: int
    ) -> dict[Arc, float]:
        """Return the weights of the insertions at one source position."""
        arcs = self.arcs
        here = [arc for arc in edits for _ in range(arcs.copies.get(arc, 1))]
        favored, passed = match_insertions(here, edits, gold_edits)
        weights: dict[Arc, float] = {
            arc: low if arc in favored else arcs.into[arc[1]][arc[0]][0] for arc in edits
        }
        for arc in passed:
            weights[arc] += SMALL
        return weights

    def _shortest(self, favored: dict[Arc, float]) -> list[int]:
        """Return the predecessor of each cell on the shortest path to the cell (Bellman-Ford).

        Distances are rounded as in m2scorer. Among equal distances, the first arc wins. Because the
        arcs are ordered, few sweeps change a distance.
        """
        arcs = self._weighed(favored) if favored else self._plain
        distances = [0.0] + [inf] * (len(self.arcs.into) - 1)
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
    """Return the number of words in a text with single spaces between words."""
    return text.count(" ") + 1 if text else 0


def match_insertions(
    here: Sequence[Arc], edits: dict[Arc, ArcEdit], gold_edits: Sequence[GoldEdit]
) -> tuple[set[Arc], list[Arc]]:
    """Match insertions at one position with gold edits, one to one, as in m2scorer.

    m2scorer alternates between both ends of both lists. Return the matched insertions, and the
    skipped insertions. Each skipped insertion is repeated as often as m2scorer skips it.
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
