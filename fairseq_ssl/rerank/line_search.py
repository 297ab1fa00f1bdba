"""Exact search along lines of weights (Och, 2003), from many starts.

Along a line every candidate's weighted sum is a straight line too, and a sentence's choice is
the upper envelope of its candidates. The places where any sentence changes its choice cut the
line into intervals of equal choices; the aim is taken of all of them.

Only the direction of a vector of weights matters. So a line is held as its two ends, points
where some weight is zero, and what lies between them has no negative weight.
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

NARROW = 4 / SCORE_UNITS
"""Intervals below it are passed over: six decimals could not tell a weight within."""
RESTARTS = 20
RANDOM_LINES = 8
"""Random directions tried in each round, beside one for every feature."""
ENOUGH = 1e-9
"""A gain in percent below it is none."""


@dataclass(frozen=True)
class LineSearchResult:
    """Weights, and the aim that they reach on the sentences they were sought on."""

    weights: Weights
    value: float

    def better(self, other: LineSearchResult) -> LineSearchResult:
        """Return the better one; of equals this one."""
        return other if other.value > self.value + ENOUGH else self


@dataclass(frozen=True)
class Intervals:
    """What a line is cut into."""

    ends: IntegerArray
    """Where they begin and end, from 0 to 1, [intervals + 1]."""
    sums: SentenceSums
    """Counts of what is chosen within, [intervals, counts]."""


def line_search(
    candidates: Candidates,
    statistics: CandidateStatistics,
    restarts: int = RESTARTS,
    seed: int = 1,
    first: tuple[Weights, ...] = (),
    done: Callable[[int], object] = lambda starts: None,
) -> LineSearchResult:
    """Return the best weights that lines lead to.

    The starts are those given, equal weights, each feature alone, and random points; the result
    is at least as good as every one of them. It is no certain maximum, and where scores are few
    whole numbers a grid's point may be better: candidates tie at points, which no interval has.

    Args:
        candidates: the scores of all candidates
        statistics: their counts
        restarts: how many random points to start from
        seed: of the random points and directions
        first: points to start from before all others
        done: called with how many starts were climbed from
    """
    features = len(candidates.names)
    draw = np.random.default_rng(seed)
    starts = [*first, equal_weights(candidates), *np.eye(features, dtype=np.int64) * SCORE_UNITS]
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
    """Climbs from a point until no line leads higher."""

    candidates: Candidates
    statistics: CandidateStatistics
    draw: np.random.Generator

    def at(self, weights: Weights) -> LineSearchResult:
        """Return a point with what it reaches."""
        sums = self.statistics.chosen(choices(self.candidates, weights)).sum(0)
        return LineSearchResult(weights, float(self.statistics.aim.values(sums)))

    def from_point(self, weights: Weights) -> LineSearchResult:
        """Climb from a point by the best of all lines through it, until none gains."""
        here = self.at(weights)
        while True:
            lines = self._lines(here.weights)
            found = here
            for begin, end in lines:
                found = found.better(self.along(begin, end))
            if found is here:
                return here
            here = found

    def along(self, begin: Weights, end: Weights) -> LineSearchResult:
        """Return the middle of the best interval between two points."""
        cut = intervals(self.candidates, self.statistics, begin, end)
        values = self.statistics.aim.values(cut.sums)
        values = np.where(np.diff(cut.ends) > NARROW, values, -1.0)
        best = int(values.argmax())
        middle = (cut.ends[best] + cut.ends[best + 1]) / 2
        return self.at(_scaled((1 - middle) * begin + middle * end))

    def _lines(self, weights: Weights) -> list[tuple[Weights, Weights]]:
        """Return the lines through a point: one to each feature alone, and random ones."""
        features = len(weights)
        if features == 1:
            return []
        ends = list(np.eye(features, dtype=np.int64) * SCORE_UNITS)
        ends += [_random_point(self.draw, features) for _ in range(RANDOM_LINES)]
        return [(begin, end) for end in ends if (begin := _beyond(weights, end)).any()]


def intervals(
    candidates: Candidates, statistics: CandidateStatistics, begin: Weights, end: Weights
) -> Intervals:
    """Cut the line between two points where any sentence changes its choice."""
    at_begin = candidates.scores @ begin.astype(np.float64)
    slopes = candidates.scores @ end.astype(np.float64) - at_begin
    counts = statistics.counts
    sentences, chosen = np.arange(len(slopes)), at_begin.argmax(1)
    sums = counts[sentences, chosen].sum(0)
    places, changes = [np.zeros(0)], [np.zeros((0, counts.shape[-1]), np.int64)]
    while len(sentences):
        place, then = _next_choices(at_begin[sentences], slopes[sentences], chosen)
        more = place < 1
        sentences, before, chosen = sentences[more], chosen[more], then[more]
        places.append(place[more])
        changes.append(counts[sentences, chosen] - counts[sentences, before])
    where = np.concatenate(places)
    order = where.argsort(kind="stable")
    steps = np.concatenate([sums[None], np.concatenate(changes)[order]])
    return Intervals(np.concatenate([[0.0], where[order], [1.0]]), steps.cumsum(0))


def _next_choices(
    at_begin: IntegerArray, slopes: IntegerArray, chosen: NDArray[np.intp]
) -> tuple[IntegerArray, NDArray[np.intp]]:
    """Return where each sentence's choice is overtaken, and by what; infinity where never.

    Where several overtake at one place, the steepest is found after one or more intervals of
    length 0.
    """
    rows = np.arange(len(chosen))
    steeper = slopes - slopes[rows, chosen][:, None]
    behind = at_begin[rows, chosen][:, None] - at_begin
    places = np.divide(behind, steeper, out=np.full_like(behind, np.inf), where=steeper > 0)
    then: NDArray[np.intp] = places.argmin(1)
    return places[rows, then], then


def _beyond(weights: Weights, end: Weights) -> Weights:
    """Go from `end` through a point on to where a weight would turn negative."""
    there = end > 0
    share = (weights[there] / end[there]).min()
    return _scaled(np.maximum(weights - share * end, 0))


def _scaled(weights: IntegerArray) -> Weights:
    """Return a point in the same direction whose largest weight is 1, in whole millionths."""
    largest = weights.max()
    if largest <= 0:
        return np.zeros(len(weights), np.int64)
    whole: Weights = np.rint(weights / largest * SCORE_UNITS).astype(np.int64)
    return whole


def _random_point(draw: np.random.Generator, features: int) -> Weights:
    """Draw a direction, every one as likely as another."""
    return _scaled(draw.dirichlet(np.ones(features)))
