"""Grid search compared with exhaustive search."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.rerank import grid
from fairseq_ssl.rerank.candidates import SCORE_UNITS, Candidates, CandidateStatistics, choices
from fairseq_ssl.rerank.grid import BoxSearch, grid_search
from tests.unit.rerank.cases import Scores, block, small_cases, statistics, texts


def plain(
    candidates: Candidates, counts: CandidateStatistics, parts: int
) -> dict[tuple[int, ...], float]:
    """Score all points except 0."""
    return {
        point: counts.score(choices(candidates, np.array(point)))
        for point in product(range(parts + 1), repeat=len(candidates.names))
        if any(point)
    }


def random_case(
    sentences: int, features: int, seed: int = 1
) -> tuple[Candidates, CandidateStatistics]:
    lists = texts(seed, sentences, 6)
    draw = np.random.default_rng(seed)
    return block([draw.normal(size=(len(rows), features)).tolist() for rows in lists]), statistics(
        lists
    )


@settings(max_examples=60)
@given(small_cases(), st.integers(1, 5), st.sampled_from([1, 4, 512]))
def test_best_point_equals_exhaustive_search(
    case: tuple[Scores, list[list[str]]], parts: int, leaf: int
) -> None:
    candidates, counts = block(case[0]), statistics(case[1])
    every = plain(candidates, counts, parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "MAX_LEAF_POINTS", leaf)
        weights, points = grid_search(candidates, counts, parts)
    steps = (
        weights * parts / SCORE_UNITS
        if SCORE_UNITS % parts == 0
        else weights // (SCORE_UNITS // parts)
    )
    found = tuple(int(step) for step in steps)
    assert every[found] == pytest.approx(max(every.values()), abs=1e-9)
    directions = {tuple(np.array(point) // np.gcd.reduce(point)) for point in every}
    assert points == len(directions)
    best = [point for point, score in every.items() if score > max(every.values()) - 1e-9]
    evenness = {point: sum(point) ** 2 / sum(step**2 for step in point) for point in best}
    even = [point for point in best if evenness[point] == max(evenness.values())]
    first = min(point for point in even if point in directions)
    assert tuple(np.array(found) // np.gcd.reduce(found)) == first
    assert 2 * max(found) > parts  # scaled to the border of the grid


@pytest.mark.parametrize("cells", [1, 2**18])
def test_counts_of_each_point(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "MAX_SCORES", cells)
    candidates, counts = random_case(30, 4)
    low, high = (0, 1, 2, 0), (2, 4, 4, 3)
    rest, _ = grid.prune(BoxSearch(candidates, counts)._all_candidates(), (low, high))
    points = np.array(list(product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))))
    for point, row in zip(points, grid.sum_counts(rest, points), strict=True):
        assert (row == counts.chosen(choices(candidates, point)).sum(0)).all()


def test_result_does_not_depend_on_processes() -> None:
    candidates, counts = random_case(60, 4)
    reported: list[int] = []
    one, points = grid_search(candidates, counts, 5, done=reported.append)
    two, same = grid_search(candidates, counts, 5, LocalExecutor(2))
    assert (one == two).all()
    assert points == same == sum(reported)
    assert not (one % (SCORE_UNITS // 5)).any()
    assert one.max() <= SCORE_UNITS
