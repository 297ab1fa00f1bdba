"""The classifier on two classes that one feature separates and another does not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fairseq_ssl.learned_filter.classifier import PairClassifier, train_classifier

pytest.importorskip("sklearn")


def test_the_informative_feature_gets_the_weight() -> None:
    draw = np.random.default_rng(1)
    clean, noisy = (
        np.stack([draw.normal(place, 1, 300), draw.normal(50, 9, 300), np.full(300, 0.0123)], 1)
        for place in (2, -2)
    )
    found, right = train_classifier(clean, noisy, ("good", "idle", "constant"))
    assert 0.95 < right < 1
    assert found.weights[0] > 10 * abs(found.weights[1])
    scores = found.scores(np.concatenate([clean, noisy]))
    assert ((scores > 0) == np.repeat([True, False], 300)).mean() > 0.95
    assert found.weights[2] == 0
    moved = np.add(clean[:1], [0, 0, 1e-4])
    assert found.scores(moved) == pytest.approx(found.scores(clean[:1]))
    again = PairClassifier.of_json(json.loads(json.dumps(found.to_json())))
    assert again.scores(clean) == pytest.approx(found.scores(clean))
    assert again.names == ("good", "idle", "constant")


def test_scores_equal_the_decision_function() -> None:
    from sklearn.svm import LinearSVC

    draw = np.random.default_rng(2)
    clean, noisy = draw.normal(1, 1, (40, 2)), draw.normal(0, 2, (60, 2))
    found, _ = train_classifier(clean, noisy, ("a", "b"), penalty=0.3, seed=2**40 + 4)
    both = np.concatenate([clean, noisy])
    scaled = (both - both.mean(0)) / both.std(0)
    machine = LinearSVC(C=0.3, dual=False, random_state=4).fit(scaled, [1] * 40 + [-1] * 60)
    assert found.scores(both) == pytest.approx(machine.decision_function(scaled))
