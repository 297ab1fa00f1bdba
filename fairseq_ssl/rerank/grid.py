"""Exact grid search for weights (Kiyono, 2022, eq. 5.2) with branch and bound.

The grid is divided into boxes. Each box is a range of weights for every feature. A candidate whose
weighted sum is lower than that of another candidate in all corners of a box cannot win in the box
and is pruned. A sentence with one remaining candidate is decided. Boxes are halved until they are
small. Then each point is evaluated on the undecided sentences.

The time grows with the number of points, (parts + 1) ** features, and with the number of sentences.
It depends little on the number of candidates, because most candidates are pruned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    CandidateStatistics,
    IntegerArray,
    Weights,
)

MAX_LEAF_POINTS = 512
"""Maximum number of grid points in a box that is evaluated without further halving."""
MIN_BOXES = 64
"""Minimum number of boxes in a search. A worker process searches one box at a time."""
MAX_SCORES = 2**18
"""Maximum number of weighted sums that are computed at a time, to limit memory."""
ONE_PROCESS = LocalExecutor(1)

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Range of grid points: the lowest and the highest weight of each feature, in grid steps."""
Point = tuple[int, ...]


@dataclass(frozen=True)
class BestPoint:
    """The best of the evaluated grid points in a box.

    Points with a common factor, such as (2, 4), are proportional to other points and not evaluated.
    """

    value: float
    """Metric value of the point."""
    point: Point
    points: int
    """Number of evaluated points."""

    def better(self, other: BestPoint) -> BestPoint:
        """Return the better point, with the total number of evaluated points.

        Ties go to the point closest to equal weights, then to the point that sorts first.
        """
        mine, its = (
            (box.value, _evenness(np.array([box.point]))[0], tuple(-step for step in box.point))
            for box in (self, other)
        )
        best = self if mine >= its else other
        return BestPoint(best.value, best.point, self.points + other.points)


NO_POINT = BestPoint(-1.0, (), 0)


def grid_search(
    candidates: Candidates,
    statistics: CandidateStatistics,
    parts: int,
    executor: Executor = ONE_PROCESS,
    done: Callable[[int], object] = lambda points: None,
) -> tuple[Weights, int]:
    """Return the best weights in the grid, and the number of evaluated points.

    Proportional points select the same candidates, so only one of them is evaluated. Ties go to the
    point closest to equal weights, then to the point that sorts first.

    Args:
        candidates: scores of all candidates
        statistics: metric counts of all candidates
        parts: number of grid steps between 0 and 1
        executor: `Executor` that runs one search per box
        done: called with the number of points evaluated since the last call
    """
    best = NO_POINT
    search = BoxSearch(candidates, statistics)
    for point in executor.imap(search, divide_grid(parts, len(candidates.names))):
        best = best.better(point)
        done(point.points)
    steps = np.array(best.point, np.int64)
    return steps * (parts // int(steps.max())) * (SCORE_UNITS // parts), best.points


def divide_grid(parts: int, features: int, min_boxes: int = MIN_BOXES) -> list[Box]:
    """Divide the grid into at least `min_boxes` boxes if it contains enough points."""
    boxes: list[Box] = [((0,) * features, (parts,) * features)]
    while len(boxes) < min_boxes:
        halved = [half for box in boxes for half in _halve(box, np.ones(features))]
        if len(halved) == len(boxes):
            break
        boxes = halved
    return boxes


def _halve(box: Box, ranges: IntegerArray) -> list[Box]:
    """Halve a box along the axis with the largest effect. A box with one point is not changed.

    The effect is the extent of the box along the axis times the feature's value in `ranges`.
    """
    low, high = box
    extents = (np.array(high) - low) * np.maximum(ranges, 1e-9)
    axis = int(extents.argmax())
    if not extents[axis]:
        return [box]
    middle = (low[axis] + high[axis]) // 2
    below = (*high[:axis], middle, *high[axis + 1 :])
    above = (*low[:axis], middle + 1, *low[axis + 1 :])
    return [(low, below), (above, high)]


@dataclass(frozen=True)
class Undecided:
    """Sentences for which several candidates can still win in a box."""

    scores: IntegerArray
    """Scores of the remaining candidates of all sentences, [candidates, features]."""
    counts: NDArray[np.int64]
    """Metric counts of the remaining candidates of all sentences, [candidates, counts]."""
    starts: NDArray[np.intp]
    """Index in `scores` of each sentence's first candidate, [sentences]."""
    decided: NDArray[np.int64]
    """Summed metric counts of the sentences with only one remaining candidate, [counts]."""

    def sizes(self) -> NDArray[np.intp]:
        """Return the number of remaining candidates for each sentence."""
        return np.diff(self.starts, append=len(self.scores))


@dataclass(frozen=True)
class BoxSearch:
    """Picklable function that finds the best point in a box."""

    candidates: Candidates
    statistics: CandidateStatistics

    def __call__(self, box: Box) -> BestPoint:
        """Return the best point in the box, or `NO_POINT` if all points have a common factor."""
        best = NO_POINT
        stack = [(box, self._all_candidates())]
        while stack:
            part, rest = stack.pop()
            rest, ranges = prune(rest, part)
            halves = _halve(part, ranges) if _points(part) > MAX_LEAF_POINTS else []
            if len(halves) == 2:
                stack += [(half, rest) for half in halves]
            else:
                best = best.better(self._evaluate(part, rest))
        return best

    def _all_candidates(self) -> Undecided:
        scores, sizes = self.candidates.scores, self.candidates.sizes
        valid = np.arange(scores.shape[1]) < sizes[:, None]
        counts = self.statistics.counts
        starts = np.cumsum(sizes) - sizes
        return Undecided(scores[valid], counts[valid], starts, np.zeros(counts.shape[-1], np.int64))

    def _evaluate(self, box: Box, rest: Undecided) -> BestPoint:
        low, high = box
        steps = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*steps, indexing="ij"), -1).reshape(-1, len(low))
        points = points[np.gcd.reduce(points, axis=1) == 1]
        if not len(points):
            return NO_POINT
        values = self.statistics.metric.values(sum_counts(rest, points))
        equal = points[values == values.max()]
        point = equal[_evenness(equal).argmax()]
        return BestPoint(float(values.max()), tuple(point.tolist()), len(points))


def prune(rest: Undecided, box: Box) -> tuple[Undecided, IntegerArray]:
    """Remove the candidates that cannot win in a box. Also return the sum of |d| for each feature.

    Each candidate is compared with the winner at the center of the box. Let d be the candidate's
    scores minus the winner's, and w the weights. The bound of w * d uses the highest weights for
    positive d and the lowest weights otherwise. A candidate is removed if its bound is negative, or
    if its bound is 0 and the winner is earlier in the list.
    """
    if not len(rest.starts):
        return rest, np.ones(len(box[0]))
    low, high = (np.array(side, np.float64) for side in box)
    sizes = rest.sizes()
    middle = rest.scores @ (low + high)
    top = middle == np.repeat(np.maximum.reduceat(middle, rest.starts), sizes)
    indices = np.where(top, np.arange(len(top)), len(top))
    winner = np.repeat(np.minimum.reduceat(indices, rest.starts), sizes)
    apart = rest.scores - rest.scores[winner]
    bound = np.maximum(apart, 0) @ high + np.minimum(apart, 0) @ low
    order = np.arange(len(winner))
    keep = (bound > 0) | ((bound == 0) & (order <= winner))
    kept = np.add.reduceat(keep.astype(np.intp), rest.starts)
    open_ = np.repeat(kept > 1, sizes)
    decided = rest.decided + rest.counts[keep & ~open_].sum(0)
    keep &= open_
    kept = kept[kept > 1]
    left = Undecided(rest.scores[keep], rest.counts[keep], np.cumsum(kept) - kept, decided)
    return left, np.abs(apart[keep]).sum(0)


def sum_counts(rest: Undecided, points: NDArray[np.int64]) -> IntegerArray:
    """Sum the counts of the candidates that each point selects, [points, counts]."""
    weights = np.ascontiguousarray(points.T, np.float64)
    total = np.zeros((rest.counts.shape[1], len(points)))
    decided = rest.decided.copy()
    sizes = rest.sizes()
    for size in np.unique(sizes):
        firsts = rest.starts[sizes == size]
        sentences = max(1, MAX_SCORES // (int(size) * len(points)))
        for begin in range(0, len(firsts), sentences):
            rows = firsts[begin : begin + sentences] + np.arange(size)[:, None]  # [size, sentences]
            decided += rest.counts[rows[0]].sum(0)
            more = (rest.counts[rows[1:]] - rest.counts[rows[0]]).reshape(-1, len(total))
            won = _find_winners(rest.scores[rows] @ weights).astype(float)
            total += more.T.astype(float) @ won.reshape(-1, len(points))
    return total.T + decided


def _find_winners(totals: IntegerArray) -> NDArray[np.bool_]:
    """Return a mask of the candidates with the highest total, except for the first candidate.

    Ties go to the earliest candidate. `totals` has the shape [size, ...], and the mask has the
    shape [size - 1, ...].
    """
    wins = np.empty((len(totals) - 1, *totals.shape[1:]), np.bool_)
    best = totals[0]
    for index in range(1, len(totals)):
        np.greater(totals[index], best, out=wins[index - 1])
        if index + 1 < len(totals):
            best = np.maximum(best, totals[index])
    later = wins[-1]
    for index in range(len(wins) - 2, -1, -1):
        won = wins[index] & ~later
        later = later | wins[index]
        wins[index] = won
    return wins


def _points(box: Box) -> int:
    return int(np.prod([high - low + 1 for low, high in zip(*box, strict=True)], dtype=object))


def _evenness(points: NDArray[np.int64]) -> IntegerArray:
    """Return (sum w)^2 / (sum w^2) for each point w, which is highest for equal weights."""
    whole = points.astype(np.float64)
    return np.asarray(whole.sum(1) ** 2 / np.maximum((whole**2).sum(1), 1))
