"""Oracle scores, random scores, and cross-validation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fairseq_ssl.metrics.bleu import sum_metric
from fairseq_ssl.rerank.candidates import SCORE_UNITS, Candidates, CandidateStatistics, choices
from fairseq_ssl.rerank.weights import (
    WeightSearch,
    cross_validate,
    draw_folds,
    feature_values,
    greedy_oracle,
    score_bounds,
)
from tests.unit.rerank.cases import block, statistics, texts


def noise(seed: int, sentences: int, features: int) -> tuple[Candidates, CandidateStatistics]:
    """Return scores that are independent of the texts."""
    lists = texts(seed, sentences, 6)
    draw = np.random.default_rng(seed)
    scores = [draw.normal(size=(len(rows), features)).tolist() for rows in lists]
    return block(scores), statistics(lists)


def test_bounds_of_a_small_corpus() -> None:
    lists = [["a x c d e", "a b c d e", "z"], ["b c d y f"], ["f g z h b", "f g h b c"]]
    references = [["a b c d e", "b c d e f", "f g h b c"]]
    counts = CandidateStatistics.of(sum_metric("bleu", "none"), lists, references)
    found = score_bounds(block([[[0]] * len(rows) for rows in lists]), counts)
    every = [counts.score(np.array(one)) for one in product(range(3), range(1), range(2))]
    assert found["first candidates"] == every[0]
    assert found["best by corpus"] == max(every) == counts.score(np.array([1, 0, 1]))
    assert found["best by sentence"] == max(every)
    assert found["random candidates"] == pytest.approx(np.mean(every), abs=4)
    assert found["standard deviation of random"] == pytest.approx(np.std(every), abs=4)


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("aim", ["bleu", "chrf"])
def test_oracle_is_a_local_maximum(aim: str, seed: int) -> None:
    lists = texts(seed, 12, 6)
    references = [[one[0] for one in texts(seed + 20, 12, 1)]]
    counts = CandidateStatistics.of(sum_metric(aim, "none"), lists, references)
    for start in (counts.metric.by_sentence(counts.counts).argmax(1), np.zeros(12, np.intp)):
        found = greedy_oracle(counts, start)
        score = counts.score(found)
        assert score >= counts.score(start)
        for number, rows in enumerate(lists):
            for place in range(len(rows)):
                other = found.copy()
                other[number] = place
                assert counts.score(other) <= score + 1e-9


def test_each_sentence_is_in_one_fold() -> None:
    parts = list(draw_folds(11, 3, 1))
    assert sorted(map(len, parts)) == [3, 4, 4]
    assert sorted(np.concatenate(parts)) == list(range(11))
    assert [part.tolist() for part in draw_folds(11, 3, 1)] == [part.tolist() for part in parts]
    assert [part.tolist() for part in draw_folds(11, 3, 2)] != [part.tolist() for part in parts]


def test_each_fold_uses_weights_of_the_other_folds() -> None:
    candidates, counts = noise(3, 20, 3)
    search = WeightSearch("grid", step=0.25, seed=2)
    chosen = np.full(20, -1)
    for fold in draw_folds(20, 4, 2):
        others = np.array([n for n in range(20) if n not in fold])
        weights = search(candidates.subset(others), counts.subset(others))
        for number in fold:
            chosen[number] = choices(candidates, weights)[number]
    assert cross_validate(search, candidates, counts, 4) == counts.score(chosen)


@pytest.mark.parametrize("method", ["grid", "mert"])
def test_each_method_finds_the_informative_feature(method: str) -> None:
    """One feature identifies the correct candidate, another one does so with inverted sign."""
    lists = [["a b c d e", "x y z"], ["x y z", "b c d e f"]]
    counts = CandidateStatistics.of(sum_metric("bleu", "none"), lists, [["a b c d e", "b c d e f"]])
    candidates = block([[[2, -9, 0], [1, 0, 0]], [[1, 0, 0], [2, -9, 0]]])
    weights = WeightSearch(method, step=0.25)(candidates, counts)
    assert choices(candidates, weights).tolist() == [0, 1]
    assert weights[0] == SCORE_UNITS
    found = feature_values(WeightSearch(method, step=0.25), candidates, counts)
    assert found["f0"].alone == pytest.approx(100)
    assert found["f0"].without == counts.score(np.array([0, 0]))
    assert found["f1"].alone == counts.score(np.array([1, 0]))
    assert found["f1"].without == found["f2"].without == pytest.approx(100)
    alone = feature_values(WeightSearch(method), candidates.only(["f0"]), counts)
    assert alone["f0"].without is None
