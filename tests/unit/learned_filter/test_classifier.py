"""The classifier and PHSIC compared with references."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.learned_filter.classifier import (
    PairClassifier,
    Phsic,
    PhsicSums,
    Values,
    train_classifier,
    unit,
)


def test_the_informative_feature_gets_the_weight() -> None:
    pytest.importorskip("sklearn")
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
    found, _ = train_classifier(clean, noisy, ("a", "b"), seed=2**40 + 4)
    both = np.concatenate([clean, noisy])
    scaled = (both - both.mean(0)) / both.std(0)
    machine = LinearSVC(dual=False, random_state=4).fit(scaled, [1] * 40 + [-1] * 60)
    assert found.scores(both) == pytest.approx(machine.decision_function(scaled))


def corpus(seed: int, pairs: int = 12) -> tuple[Values, Values]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(pairs, 4)), draw.normal(size=(pairs, 3))


def cosine(one: Values, other: Values) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def centered(rows: Values, one: int, point: Values) -> float:
    """Return the cosine of a row and a point, both centered by all rows."""
    own = [cosine(rows[one], row) for row in rows]
    its = [cosine(point, row) for row in rows]
    every = [cosine(row, other) for row in rows for other in rows]
    mean = [sum(values) / len(values) for values in (own, its, every)]
    return cosine(rows[one], point) - mean[0] - mean[1] + mean[2]


def plain(sources: Values, targets: Values, x: Values, y: Values) -> float:
    """Return the mean of products of centered kernels (Yokoi et al., 2018)."""
    products = [centered(sources, n, x) * centered(targets, n, y) for n in range(len(sources))]
    return sum(products) / len(products)


def test_closed_form_equals_the_mean_over_kernels() -> None:
    sources, targets = corpus(1)
    others = corpus(2, 5)
    learned = PhsicSums.of(unit(sources), unit(targets)).phsic()
    found = learned.scores(unit(others[0]), unit(others[1])).tolist()
    expected = [plain(sources, targets, x, y) for x, y in zip(*others, strict=True)]
    assert found == pytest.approx(expected, abs=1e-12)
    assert len(set(found)) == 5


def test_sums_of_parts_add_up(tmp_path: Path) -> None:
    sources, targets = map(unit, corpus(3, 40))
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]
    whole = PhsicSums.of(sources, targets).phsic()
    parts = PhsicSums.of(sources[:7], targets[:7])
    for begin, end in ((7, 8), (8, 40)):
        parts.add(PhsicSums.of(sources[begin:end], targets[begin:end]))
    parts.phsic().write(tmp_path / "p.npz")
    again = Phsic.read(tmp_path / "p.npz")
    assert again.scores(sources, targets) == pytest.approx(whole.scores(sources, targets))
