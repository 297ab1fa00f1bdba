"""PHSIC compared with the mean of products of centered kernels, computed pair by pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.learned_filter.classifier import Phsic, PhsicSums, Values, unit


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


def test_matching_pairs_have_higher_scores() -> None:
    sources = np.eye(4)[np.arange(80) % 4]
    targets = np.eye(4)[np.arange(80) % 4]
    learned = PhsicSums.of(sources, targets).phsic()
    right, wrong = (
        learned.scores(np.eye(4), np.eye(4)[order]) for order in ([0, 1, 2, 3], [1, 0, 3, 2])
    )
    assert right == pytest.approx([0.1875] * 4)  # 1/4 of 3/4
    assert wrong == pytest.approx([-0.0625] * 4)
