"""Minimum error rate training (MERT): exact line search for weights (Och, 2003).

Along a line in weight space, the weighted sum of each candidate is linear, and the best candidates
of a sentence form an upper envelope. The points where the best candidate of any sentence changes
divide the line into intervals, and the metric is computed once per interval.

Only the direction of a weight vector matters. A line through a point is therefore represented by
two end points: the direction of the line, and the point in the opposite direction at which a weight
becomes 0. No point between them has a negative weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.metrics.bleu import SentenceSums
from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    CandidateStatistics,
    IntegerArray,
    Weights,
    choices,
    equal_weights,
)

MIN_INTERVAL = 4 / SCORE_UNITS
"""Minimum length of an interval that can be selected, because weights have six decimals."""
RESTARTS = 20
RANDOM_LINES = 8
"""Number of random directions per round, in addition to one direction per feature."""
MIN_GAIN = 1e-9
"""Score difference, in percentage points, above which a score counts as an improvement."""


@dataclass(frozen=True)
class LineSearchResult:
    """Weights and their score on the tuning sentences, in percent."""

    weights: Weights
    value: float

    def better(self, other: LineSearchResult) -> LineSearchResult:
        """Return `other` if its value is higher by more than `MIN_GAIN`, or else this result."""
        return other if other.value > self.value + MIN_GAIN else self


@dataclass(frozen=True)
class Intervals:
    """Intervals of a line, in each of which the best candidates do not change."""

    ends: IntegerArray
    """Interval bounds, from 0 (begin) to 1 (end), [intervals + 1]."""
    sums: SentenceSums
    """Summed metric counts of the best candidates, [intervals, counts]."""


def line_search(
    candidates: Candidates,
    statistics: CandidateStatistics,
    restarts: int = RESTARTS,
    seed: int = 1,
    done: Callable[[int], object] = lambda starts: None,
) -> LineSearchResult:
    """Return the best weights of several line searches.

    The searches start from equal weights, from each feature alone, and from random points. The
    result is at least as good as every start, but can be a local maximum. If scores are small
    integers, grid search can find better weights, because line search does not evaluate single
    points at which candidates tie.

    Args:
        candidates: scores of all candidates
        statistics: metric counts of all candidates
        restarts: number of random starts, 0 or more
        seed: random seed for points and directions
        done: called with 1 after each start except the first
    """
    features = len(candidates.names)
    draw = np.random.default_rng(seed)
    starts = [equal_weights(candidates), *np.eye(features, dtype=np.int64) * SCORE_UNITS]
    starts += [_random_point(draw, features) for _ in range(restarts)]
    search = LineSearch(candidates, statistics, draw)
    best = search.from_point(starts[0])
    seen = {tuple(starts[0])}
    for start in starts[1:]:
        if tuple(start) not in seen:
            seen.add(tuple(start))
            best = best.better(search.from_point(start))
            done(1)
    return best


@dataclass(frozen=True)
class LineSearch:
    """Search that moves a point until none of the searched lines through it improves the score."""

    candidates: Candidates
    statistics: CandidateStatistics
    draw: np.random.Generator

    def evaluate(self, weights: Weights) -> LineSearchResult:
        """Return the weights, and the score of the candidates that they select."""
        sums = self.statistics.chosen(choices(self.candidates, weights)).sum(0)
        return LineSearchResult(weights, float(self.statistics.metric.values(sums)))

    def from_point(self, weights: Weights) -> LineSearchResult:
        """Repeatedly move to the best point on the lines through the current point.

        Return the last point, for which none of the searched lines improves the score.
        """
        here = self.evaluate(weights)
        while True:
            lines = self._lines(here.weights)
            best = here
            for begin, end in lines:
                best = best.better(self.along(begin, end))
            if best is here:
                return here
            here = best

    def along(self, begin: Weights, end: Weights) -> LineSearchResult:
        """Return the midpoint of the best interval between two points, and the midpoint's score."""
        parts = intervals(self.candidates, self.statistics, begin, end)
        values = self.statistics.metric.values(parts.sums)
        values = np.where(np.diff(parts.ends) > MIN_INTERVAL, values, -1.0)
        best = int(values.argmax())
        middle = (parts.ends[best] + parts.ends[best + 1]) / 2
        return self.evaluate(_scale((1 - middle) * begin + middle * end))

    def _lines(self, weights: Weights) -> list[tuple[Weights, Weights]]:
        """Return the end points of lines through a point: a line per feature, and random lines."""
        features = len(weights)
        if features == 1:
            return []
        ends = list(np.eye(features, dtype=np.int64) * SCORE_UNITS)
        ends += [_random_point(self.draw, features) for _ in range(RANDOM_LINES)]
        return [(begin, end) for end in ends if (begin := _extend(weights, end)).any()]


def intervals(
    candidates: Candidates, statistics: CandidateStatistics, begin: Weights, end: Weights
) -> Intervals:
    """Return the intervals between two points in which no best candidate changes."""
    at_begin = candidates.scores @ begin.astype(np.float64)
    slopes = candidates.scores @ end.astype(np.float64) - at_begin
    counts = statistics.counts
    sentences, chosen = np.arange(len(slopes)), at_begin.argmax(1)
    sums = counts[sentences, chosen].sum(0)
    points, changes = [np.zeros(0)], [np.zeros((0, counts.shape[-1]), np.int64)]
    while len(sentences):
        point, following = _next_choices(at_begin[sentences], slopes[sentences], chosen)
        more = point < 1
        sentences, before, chosen = sentences[more], chosen[more], following[more]
        points.append(point[more])
        changes.append(counts[sentences, chosen] - counts[sentences, before])
    bounds = np.concatenate(points)
    order = bounds.argsort(kind="stable")
    steps = np.concatenate([sums[None], np.concatenate(changes)[order]])
    return Intervals(np.concatenate([[0.0], bounds[order], [1.0]]), steps.cumsum(0))


def _next_choices(
    at_begin: IntegerArray, slopes: IntegerArray, chosen: NDArray[np.intp]
) -> tuple[IntegerArray, NDArray[np.intp]]:
    """Return the position at which each best candidate is overtaken, and the overtaking candidate.

    The position is infinity if no candidate overtakes. If several candidates overtake at the same
    position, intervals of length 0 follow until the steepest candidate is the best.
    """
    rows = np.arange(len(chosen))
    steeper = slopes - slopes[rows, chosen][:, None]
    behind = at_begin[rows, chosen][:, None] - at_begin
    points = np.divide(behind, steeper, out=np.full_like(behind, np.inf), where=steeper > 0)
    following: NDArray[np.intp] = points.argmin(1)
    return points[rows, following], following


def _extend(weights: Weights, end: Weights) -> Weights:
    """Return the point at which the line from `end` through `weights` reaches a weight of 0."""
    positive = end > 0
    fraction = (weights[positive] / end[positive]).min()
    return _scale(np.maximum(weights - fraction * end, 0))


def _scale(weights: IntegerArray) -> Weights:
    """Scale weights to the maximum SCORE_UNITS and round. Return zeros if no weight is positive."""
    largest = weights.max()
    if largest <= 0:
        return np.zeros(len(weights), np.int64)
    whole: Weights = np.rint(weights / largest * SCORE_UNITS).astype(np.int64)
    return whole


def _random_point(draw: np.random.Generator, features: int) -> Weights:
    """Draw weights from the uniform Dirichlet distribution, and scale them with `_scale`."""
    return _scale(draw.dirichlet(np.ones(features)))
