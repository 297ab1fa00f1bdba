"""Every point of a grid of weights (thesis, eq. 5.2), exact, without looking at most of it.

The grid is cut into boxes. Where a candidate loses against another one in all corners of a box,
it loses within it; a sentence with one candidate left needs no more work there. Boxes are halved
until they are small, and only then the points are tried, on what is left of the sentences.

The time grows with the number of points, (parts + 1) ** features, and with that of sentences; far
less with candidates, for most are never tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    CandidateStatistics,
    IntegerArray,
    Weights,
)

LEAF = 512
"""Points of a box that is not halved any more."""
BOXES = 64
"""Into so many, or more, the grid is cut for processes to share; whatever their number."""
CELLS = 2**18
"""Scores that are held at a time."""
SINGLE = 2.0**24
"""Whole numbers below it are exact in single precision."""

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Lowest and highest weight of each feature, in steps."""
Point = tuple[int, ...]


class ScoreRange(Protocol):
    """How work is spread: the `ordered` of an engine, or `map`."""

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        """Yield what `work` makes of each item, in their order."""


@dataclass(frozen=True)
class Best:
    """The best point of a box, and how many different ones it has."""

    value: float
    point: Point
    points: int

    def better(self, other: Best) -> Best:
        """Return the better one, with the points of both."""
        mine, its = (
            (one.value, _evenness(np.array([one.point]))[0], tuple(-step for step in one.point))
            for one in (self, other)
        )
        found = self if mine >= its else other
        return Best(found.value, found.point, self.points + other.points)


NO_BOXES = Best(-1.0, (), 0)


def grid_search(
    candidates: Candidates,
    statistics: CandidateStatistics,
    parts: int,
    spread: ScoreRange = map,
    done: Callable[[int], object] = lambda points: None,
) -> tuple[Weights, int]:
    """Return the best weights of the grid, and how many different points it has.

    Points that are proportional to each other choose the same candidates and count once. Of
    equally good ones the nearest to equal weights is taken, and of those the first.

    Args:
        candidates: the scores of all candidates
        statistics: their counts
        parts: how many steps make a weight of 1
        spread: how the work is spread over processes
        done: called with how many points were tried
    """
    best = NO_BOXES
    for found in spread(Boxes(candidates, statistics), list(boxes(parts, len(candidates.names)))):
        best = best.better(found)
        done(found.points)
    steps = np.array(best.point, np.int64)
    return steps * (parts // int(steps.max())) * (SCORE_UNITS // parts), best.points


def boxes(parts: int, features: int, least: int = BOXES) -> list[Box]:
    """Cut the grid into so many boxes or more, if it has as many points."""
    found: list[Box] = [((0,) * features, (parts,) * features)]
    while len(found) < least:
        halved = [half for box in found for half in _halves(box, np.ones(features))]
        if len(halved) == len(found):
            break
        found = halved
    return found


def _halves(box: Box, spreads: IntegerArray) -> list[Box]:
    """Cut a box where scores differ most from one side to the other; a point stays whole."""
    low, high = box
    extents = (np.array(high) - low) * np.maximum(spreads, 1e-9)
    axis = int(extents.argmax())
    if not extents[axis]:
        return [box]
    middle = (low[axis] + high[axis]) // 2
    below = (*high[:axis], middle, *high[axis + 1 :])
    above = (*low[:axis], middle + 1, *low[axis + 1 :])
    return [(low, below), (above, high)]


@dataclass(frozen=True)
class Rest:
    """What is undecided in a box: sentences with several candidates that may win there."""

    scores: IntegerArray
    """[candidates left, features]"""
    counts: NDArray[np.int64]
    """[candidates left, counts]"""
    starts: NDArray[np.intp]
    """Where each sentence begins."""
    settled: NDArray[np.int64]
    """Sums of counts of the sentences with one candidate, [counts]."""

    def sizes(self) -> NDArray[np.intp]:
        """Return how many candidates each sentence has left."""
        return np.diff(self.starts, append=len(self.scores))


@dataclass(frozen=True)
class Boxes:
    """Finds the best point of a box."""

    candidates: Candidates
    statistics: CandidateStatistics

    def __call__(self, box: Box) -> Best:
        """Return the best point among those of the box that have no common factor."""
        best = NO_BOXES
        whole = self._whole()
        left = [(box, whole)]
        single = _fits_single(whole)
        while left:
            part, rest = left.pop()
            rest, spreads = pruned(rest, part)
            halves = _halves(part, spreads) if _points(part) > LEAF else []
            if len(halves) == 2:
                left += [(half, rest) for half in halves]
            else:
                best = best.better(self._tried(part, rest, single))
        return best

    def _whole(self) -> Rest:
        scores, sizes = self.candidates.scores, self.candidates.sizes
        there = np.arange(scores.shape[1]) < sizes[:, None]
        counts = self.statistics.counts
        starts = np.cumsum(sizes) - sizes
        return Rest(scores[there], counts[there], starts, np.zeros(counts.shape[-1], np.int64))

    def _tried(self, box: Box, rest: Rest, single: bool) -> Best:
        low, high = box
        steps = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*steps, indexing="ij"), -1).reshape(-1, len(low))
        points = points[np.gcd.reduce(points, axis=1) == 1]
        if not len(points):
            return NO_BOXES
        values = self.statistics.aim.values(sums(rest, points, np.float32 if single else float))
        equal = points[values == values.max()]
        point = equal[_evenness(equal).argmax()]
        return Best(float(values.max()), tuple(point.tolist()), len(points))


def pruned(rest: Rest, box: Box) -> tuple[Rest, IntegerArray]:
    """Leave out what can not be chosen in a box; returns how much each feature's scores differ.

    What is left is compared with the winner in the middle. The most that w * d can be, with d
    the difference of scores, takes the highest weights where d is positive, else the lowest.
    """
    if not len(rest.starts):
        return rest, np.ones(len(box[0]))
    low, high = (np.array(side, np.float64) for side in box)
    sizes = rest.sizes()
    middle = rest.scores @ (low + high)
    top = middle == np.repeat(np.maximum.reduceat(middle, rest.starts), sizes)
    places = np.where(top, np.arange(len(top)), len(top))
    winner = np.repeat(np.minimum.reduceat(places, rest.starts), sizes)
    apart = rest.scores - rest.scores[winner]
    most = np.maximum(apart, 0) @ high + np.minimum(apart, 0) @ low
    order = np.arange(len(winner))
    keep = (most > 0) | ((most == 0) & (order <= winner))
    kept = np.add.reduceat(keep.astype(np.intp), rest.starts)
    open_ = np.repeat(kept > 1, sizes)
    settled = rest.settled + rest.counts[keep & ~open_].sum(0)
    keep &= open_
    kept = kept[kept > 1]
    left = Rest(rest.scores[keep], rest.counts[keep], np.cumsum(kept) - kept, settled)
    return left, np.abs(apart[keep]).sum(0)


def sums(rest: Rest, points: NDArray[np.int64], kind: Any = np.float64) -> IntegerArray:
    """Return the counts of what each point chooses, summed over sentences, [points, counts]."""
    weights = np.ascontiguousarray(points.T, np.float64)
    total = np.zeros((rest.counts.shape[1], len(points)), kind)
    settled = rest.settled.copy()
    sizes = rest.sizes()
    for size in np.unique(sizes):
        firsts = rest.starts[sizes == size]
        some = max(1, CELLS // (int(size) * len(points)))
        for begin in range(0, len(firsts), some):
            rows = firsts[begin : begin + some] + np.arange(size)[:, None]  # [size, sentences]
            settled += rest.counts[rows[0]].sum(0)
            more = (rest.counts[rows[1:]] - rest.counts[rows[0]]).reshape(-1, len(total))
            won = _won(rest.scores[rows] @ weights).astype(kind)
            total += more.T.astype(kind) @ won.reshape(-1, len(points))
    return total.T.astype(np.float64) + settled


def _won(totals: IntegerArray) -> NDArray[np.bool_]:
    """Tell where each candidate but the first is chosen, [size - 1, ...], of [size, ...]."""
    wins = np.empty((len(totals) - 1, *totals.shape[1:]), np.bool_)
    best = totals[0]
    for place in range(1, len(totals)):
        np.greater(totals[place], best, out=wins[place - 1])
        if place + 1 < len(totals):
            best = np.maximum(best, totals[place])
    later = wins[-1]
    for place in range(len(wins) - 2, -1, -1):
        won = wins[place] & ~later
        later = later | wins[place]
        wins[place] = won
    return wins


def _points(box: Box) -> int:
    return int(np.prod([high - low + 1 for low, high in zip(*box, strict=True)], dtype=object))


def _fits_single(rest: Rest) -> bool:
    """Tell whether sums of differences of counts stay exact in single precision."""
    most, least = (
        kind.reduceat(rest.counts, rest.starts, axis=0) for kind in (np.maximum, np.minimum)
    )
    return bool((most - least).sum(0).max() < SINGLE)


def _evenness(points: NDArray[np.int64]) -> IntegerArray:
    """Return how near to equal the weights of points are, [points], of [points, features]."""
    whole = points.astype(np.float64)
    return np.asarray(whole.sum(1) ** 2 / np.maximum((whole**2).sum(1), 1))
