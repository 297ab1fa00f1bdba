"""The score array, and the best candidates for weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    choices,
    equal_weights,
    named_weights,
    weighted_totals,
    whole_weights,
)
from tests.unit.rerank.cases import block

SCORES = st.floats(1, 1000) | st.floats(-1000, -1) | st.just(0.0)


def test_best_candidate_is_chosen_with_ties_to_the_first() -> None:
    ours = block([[[1, 5], [3, 3], [5, 1]], [[0, 0]], [[-2, -1], [-1, -2], [-1, -2]]])
    assert choices(ours, whole_weights({"a": 1, "b": 0.5})).tolist() == [2, 0, 1]
    assert choices(ours, whole_weights({"a": 0.5, "b": 1})).tolist() == [0, 0, 0]
    assert choices(ours, equal_weights(ours)).tolist() == [0, 0, 0]
    assert choices(ours, np.zeros(2, np.int64)).tolist() == [0, 0, 0]


def test_sums_of_decimals_tie() -> None:
    """0.1 * 3 and 0.3 * 1 differ as doubles."""
    ours = block([[[0.0, 0.3], [0.1, 0.0], [0.1, 0.0]]])
    assert choices(ours, whole_weights({"a": 0.3, "b": 0.1})).tolist() == [0]
    assert choices(ours, whole_weights({"a": 0.300001, "b": 0.1})).tolist() == [1]


@given(
    st.lists(st.lists(SCORES, min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(0, SCORE_UNITS), min_size=3, max_size=3),
)
@example([[400.0, 400.0, 400 / 3]], [SCORE_UNITS - 1] * 3)  # the largest sum of three scores
def test_sums_are_exact(rows: list[list[float]], weights: list[int]) -> None:
    ours = block([rows])
    found = weighted_totals(ours, np.array(weights))[0]
    for row, total in zip(ours.scores[0].tolist(), found.tolist(), strict=True):
        exact = sum(Fraction(w) * Fraction(score) for w, score in zip(weights, row, strict=True))
        assert Fraction(total) == exact
    largest = np.abs(rows).max()
    if largest:
        scale = np.abs(ours.scores).max() / largest
        assert ours.scores[0] / scale == pytest.approx(np.array(rows), abs=2e-8 * largest)


def test_features_are_selected_by_name() -> None:
    lists = [[{"a": 1.0, "b": 2.0}, {"b": 4.0, "a": 3.0}], [{"b": 0.0, "a": -8.0, "c": 1.0}]]
    ours = Candidates.of(lists)
    assert ours.names == ("a", "b")
    assert ours.sizes.tolist() == [2, 1]
    relative = (ours.scores / ours.scores[0, 0, 0]).tolist()
    assert relative == [[[1, 2], [3, 4]], [[-8, 0], [-8, 0]]]
    part = ours.only(["b"])
    assert part.names == ("b",)
    assert (part.scores[..., 0] == ours.scores[..., 1]).all()
    one = ours.subset(np.array([1]))
    assert (one.scores == ours.scores[1]).all()
    assert one.sizes.tolist() == [1]
    assert named_weights(ours.names, whole_weights({"a": 0.25, "b": 1})) == {"a": 0.25, "b": 1}


@pytest.mark.parametrize(
    ("lists", "culprit"),
    [
        ([[{"a": 1.0}, {"a": 1.0}], [{"ab": 1.0}]], "list:9.*'a'"),
        ([[{"a": 1.0}, {"a": float("nan")}]], "list:8.*a= nan"),
        ([[{}]], "list:7"),
        ([[{"a": 1e-4, "b": 1.0}], [{"a": 0.0, "b": -1e9}]], "list.*'a'.*'b'"),
    ],
)
def test_wrong_scores_are_named(lists: list[list[dict[str, float]]], culprit: str) -> None:
    with pytest.raises(DataError, match=culprit):
        Candidates.of(lists, file="list", first=7)
