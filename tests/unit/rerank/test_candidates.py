"""Scores and counts of candidates, the best ones for weights, and scores of sacreBLEU."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.bleu import SUM_METRICS, BleuSums, sum_metric
from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    CandidateStatistics,
    choices,
    equal_weights,
    named_weights,
    whole_weights,
)
from tests.unit.rerank.cases import block, texts

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
    found = (ours.scores @ np.array(weights, np.float64))[0]
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
        ([[{"a": 1.0}, {"a": 1.0}], [{"ab": 1.0}]], "list:3.*'a'"),
        ([[{}]], "list:1"),
        ([[{"a": 1e-4, "b": 1.0}], [{"a": 0.0, "b": -1e9}]], "list.*'a'.*'b'"),
    ],
)
def test_wrong_scores_are_named(lists: list[list[dict[str, float]]], culprit: str) -> None:
    with pytest.raises(DataError, match=culprit):
        Candidates.of(lists, file="list")


WORDS = "The cat sat, on a mat. It's 3.5% cats' 猫は座る。 (well-known) É U.S."


def metric(aim: str, tokenizer: str) -> Any:
    if aim == "bleu":
        return BLEU(tokenize=tokenizer, force=True)
    return CHRF(word_order=2 if aim == "chrf++" else 0)


@pytest.mark.parametrize(
    ("aim", "tokenizer", "references"),
    [
        *(("bleu", "13a", 1), ("bleu", "13a", 3), ("bleu", "none", 1), ("bleu", "intl", 3)),
        *(("bleu", "char", 1), ("bleu", "zh", 3), ("bleu", "ja-mecab", 1)),
        *(("chrf", "", 1), ("chrf++", "", 3)),
    ],
)
def test_scores_of_sums_equal_scores_of_texts(aim: str, tokenizer: str, references: int) -> None:
    lists = texts(1, 40, 5, WORDS)
    expected_texts = [
        [one[0] for one in texts(seed, 40, 1, WORDS)] for seed in range(2, 2 + references)
    ]
    ours = CandidateStatistics.of(sum_metric(aim, tokenizer), lists, expected_texts)
    assert ours.counts.shape[:2] == (40, max(map(len, lists)))
    draw, real = random.Random(1), metric(aim, tokenizer)
    for size in (1, 2, 40):
        some = ours.subset(np.arange(size))
        for _ in range(10):
            choices = np.array([draw.randrange(len(rows)) for rows in lists[:size]])
            chosen = [rows[k] for rows, k in zip(lists, choices, strict=False)]
            score = real.corpus_score(chosen, [lines[:size] for lines in expected_texts]).score
            assert some.score(choices) == pytest.approx(score, abs=1e-9)
            sums = some.chosen(choices).sum(0)
            assert some.metric.values(sums) == pytest.approx(score, abs=1e-9)
            assert some.metric.values(np.stack([sums, 0 * sums]))[1] == 0
    assert ours.metric.signature() == str(real.get_signature())


@pytest.mark.parametrize("aim", SUM_METRICS)
def test_sentence_scores_equal_those_of_sacrebleu(aim: str) -> None:
    lists = texts(3, 30, 3, WORDS)
    expected_texts = [one[0] for one in texts(4, 30, 1, WORDS)]
    ours = CandidateStatistics.of(sum_metric(aim), lists, [expected_texts])
    real = BLEU(effective_order=True) if aim == "bleu" else metric(aim, "")
    found = ours.metric.by_sentence(ours.counts)
    for rows, reference, scores in zip(lists, expected_texts, found, strict=True):
        for text, score in zip(rows, scores, strict=False):
            assert score == pytest.approx(real.sentence_score(text, [reference]).score, abs=1e-9)


def test_padding_repeats_the_first_candidate() -> None:
    lists = [["a b", "c", "d"], ["d e f", "d"]]
    first, second, third = CandidateStatistics.of(BleuSums(), lists, [["a", "d"]]).counts[1]
    assert (third == first).all()
    assert (third != second).any()
