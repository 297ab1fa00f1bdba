"""Intervals of line search, and comparison with grid search."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from fairseq_ssl.rerank import line_search as module
from fairseq_ssl.rerank.candidates import SCORE_UNITS, Candidates, CandidateStatistics, choices
from fairseq_ssl.rerank.grid import grid_search
from fairseq_ssl.rerank.line_search import LineSearch, intervals, line_search
from tests.unit.rerank.cases import Scores, block, small_cases, statistics, texts


def divide_line(
    candidates: Candidates, begin: np.ndarray, end: np.ndarray
) -> list[tuple[Fraction, Fraction, list[int]]]:
    """Divide a line at all crossings, in fractions. Return the choices in each interval."""
    places = {Fraction(0), Fraction(1)}
    ends = [(candidates.scores @ side).astype(int).tolist() for side in (begin, end)]
    for first, last in zip(*ends, strict=True):
        for i in range(len(first)):
            for j in range(i):
                slope = (last[i] - first[i]) - (last[j] - first[j])
                if slope:
                    places.add(Fraction(first[j] - first[i], slope))
    inside = sorted(place for place in places if 0 <= place <= 1)
    found = []
    for a, b in pairwise(inside):
        middle = (a + b) / 2
        chosen = []
        for first, last in zip(*ends, strict=True):
            sums = [(1 - middle) * x + middle * y for x, y in zip(first, last, strict=True)]
            chosen.append(sums.index(max(sums)))
        found.append((a, b, chosen))
    return found


@settings(max_examples=60)
@given(small_cases(features=3))
def test_intervals_have_the_chosen_candidates(case: tuple[Scores, list[list[str]]]) -> None:
    candidates, counts = block(case[0]), statistics(case[1])
    for begin, end in (
        (np.array([0, 3, 5]), np.array([1, 0, 0])),
        (np.array([2, 0, 1]), np.array([0, 4, 1])),
    ):
        found = intervals(candidates, counts, begin, end)
        assert found.ends[0] == 0
        assert found.ends[-1] == 1
        assert (np.diff(found.ends) >= 0).all()
        for a, b, chosen in divide_line(candidates, begin, end):
            place = int(np.searchsorted(found.ends, float((a + b) / 2))) - 1
            assert (found.sums[place] == counts.chosen(np.array(chosen)).sum(0)).all()
        wide = np.diff(found.ends) > 1e-9
        assert wide.sum() <= len(divide_line(candidates, begin, end))


def test_along_returns_the_best_point_of_a_line() -> None:
    """The only correct candidate is best between 0.25 and 0.75 of the line."""
    candidates = block([[[0, 8], [6, 6], [8, 0]]] * 2)
    lists = [["x y z v", "a b c d", "x z y v"]] * 2
    counts = CandidateStatistics.of(statistics(lists).metric, lists, [["a b c d"] * 2])
    search = LineSearch(candidates, counts, np.random.default_rng(1))
    found = search.along(np.array([0, SCORE_UNITS]), np.array([SCORE_UNITS, 0]))
    assert found.weights.tolist() == [SCORE_UNITS, SCORE_UNITS]
    assert found.value == pytest.approx(100)
    climbed = search.from_point(np.array([SCORE_UNITS, 0]))
    assert climbed.value == pytest.approx(100)


@settings(max_examples=15)
@given(small_cases(features=3))
def test_result_is_at_least_as_good_as_its_start(case: tuple[Scores, list[list[str]]]) -> None:
    candidates, counts = block(case[0]), statistics(case[1])
    best, _ = grid_search(candidates, counts, 4)
    value = counts.score(choices(candidates, best))
    found = LineSearch(candidates, counts, np.random.default_rng(1)).from_point(best)
    assert found.value == pytest.approx(counts.score(choices(candidates, found.weights)))
    assert found.value >= value - 1e-9
    assert found.weights.min() >= 0
    assert 0 < found.weights.max() <= SCORE_UNITS


def realistic(seed: int, sentences: int = 80) -> tuple[Candidates, CandidateStatistics]:
    lists = texts(seed, sentences, 8)
    draw = np.random.default_rng(seed)
    counts = statistics(lists)
    quality = counts.metric.by_sentence(counts.counts) / 20
    scores = [
        (row[: len(rows), None] + draw.normal(size=(len(rows), 4)) * [0.5, 1, 2, 4]).tolist()
        for rows, row in zip(lists, quality, strict=True)
    ]
    return block(scores), counts


def test_line_search_beats_a_grid_for_real_scores() -> None:
    candidates, counts = realistic(0)
    best, _ = grid_search(candidates, counts, 10)
    value = counts.score(choices(candidates, best))
    assert line_search(candidates, counts, restarts=10).value >= value - 1e-9


def test_same_seed_same_weights() -> None:
    candidates, counts = realistic(1, 30)
    reported: list[int] = []
    found = line_search(candidates, counts, restarts=3, seed=5, done=reported.append)
    again = line_search(candidates, counts, restarts=3, seed=5)
    assert (found.weights == again.weights).all()
    assert sum(reported) >= 6  # all starts except the first one


def test_random_lines_improve_over_feature_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = []
    for seed in range(4):
        candidates, counts = realistic(seed, 30)
        with_them = line_search(candidates, counts, restarts=0).value
        with monkeypatch.context() as patch:
            patch.setattr(module, "RANDOM_LINES", 0)
            gains.append(with_them - line_search(candidates, counts, restarts=0).value)
    assert np.mean(gains) > 0


def test_a_line_extends_beyond_its_point() -> None:
    """The second weight has to decrease."""
    begin = module._extend(
        np.array([200_000, 500_000, SCORE_UNITS]), np.array([SCORE_UNITS, SCORE_UNITS, 0])
    )
    assert begin.tolist() == [0, 300_000, SCORE_UNITS]
    assert not module._extend(np.array([0, SCORE_UNITS]), np.array([0, SCORE_UNITS])).any()
    candidates = block([[[0, 0, 9], [7, 4, 0], [5, 9, 0]]])
    lists = [["x y z v", "a b c d", "x z y v"]]
    counts = CandidateStatistics.of(statistics(lists).metric, lists, [["a b c d"]])
    search = LineSearch(candidates, counts, np.random.default_rng(1))
    found = search.from_point(np.array([SCORE_UNITS // 2, SCORE_UNITS // 2, 0]))
    assert found.value == pytest.approx(100)
