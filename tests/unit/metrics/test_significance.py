"""The paired bootstrap in cases with a known answer, and statistics over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ssl.metrics.metric import SeedRange, SentenceStatistics, bootstrap_statistics, cell


def share(totals: SentenceStatistics) -> float:
    return float(100 * totals[0] / totals[1])


def rows(right: list[int]) -> SentenceStatistics:
    return np.array([[n, 1.0] for n in right])


def test_equal_systems_do_not_differ() -> None:
    same = [rows([1, 0, 1, 1, 0] * 20)]
    found = bootstrap_statistics(same, same, share, samples=50)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_constant_difference_is_significant() -> None:
    better, worse = rows([1] * 60 + [0] * 40), rows([0] * 100)
    found = bootstrap_statistics([better], [worse], share, samples=200)
    assert found.difference == pytest.approx(60)
    assert found.p == pytest.approx(1 / 201)  # no sample is as far from the mean
    # the standard deviation of a share of 100 draws is 4.9
    assert found.low == pytest.approx(60 - 1.96 * 4.9, abs=2)
    assert found.high == pytest.approx(60 + 1.96 * 4.9, abs=2)
    swapped = bootstrap_statistics([worse], [better], share, samples=200)
    assert (swapped.difference, swapped.p) == (-found.difference, found.p)


def test_sentences_are_resampled_in_pairs() -> None:
    """If systems were resampled independently, a difference of 1 in 100 would be lost in noise."""
    easy = [1, 0] * 50
    ahead = [1, *easy[1:-1], 1]
    found = bootstrap_statistics([rows(ahead)], [rows(easy)], share, samples=300)
    assert found.difference == pytest.approx(1)
    assert 0 <= found.low < 1 < found.high < 5
    assert found.p > 0.2


def test_samples_depend_on_the_seed_and_scores_are_averaged() -> None:
    draw = np.random.default_rng(1)
    first, second, third = (rows(list(draw.integers(0, 2, 50))) for _ in range(3))
    once = bootstrap_statistics([first, second], [third], share, 100, seed=3)
    assert once == bootstrap_statistics([first, second], [third], share, 100, seed=3)
    assert once != bootstrap_statistics([first, second], [third], share, 100, seed=4)
    mean = (share(first.sum(0)) + share(second.sum(0))) / 2
    assert once.difference == pytest.approx(mean - share(third.sum(0)))


def test_mean_and_standard_deviation() -> None:
    found = SeedRange([1.0, 2.0, 4.5])
    assert found.mean == pytest.approx(2.5)
    assert found.std == pytest.approx(((2.25 + 0.25 + 4) / 2) ** 0.5)
    assert str(found) == "2.50 ± 1.80"
    assert (str(SeedRange([3])), SeedRange([3]).std) == ("3.00", 0)
    assert cell([0.0821, 0.0941], 3) == "0.088 ± 0.008 (2)"
    assert (cell([20]), cell([])) == ("20.00 (1)", "not run")
