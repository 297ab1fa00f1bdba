"""Denoising noise of PoDA: Beta distribution, shuffling, shares and order of operations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.tokens import DenoisingNoise, Unigrams

UNIGRAMS = Unigrams.of({"x": 2, "y": 1})
LENGTH, LINES = 30, 4000
CLEAN = TokenBatch.of_words([" ".join(f"w{i}" for i in range(LENGTH))] * LINES)


def noised(seed: int = 1, **options: float) -> NoisedBatch:
    return DenoisingNoise(UNIGRAMS, **options)(CLEAN, Random.of((seed,), len(CLEAN.lengths)))


def test_alpha_and_beta_have_the_papers_mean_and_standard_deviation() -> None:
    alpha, beta = DenoisingNoise(UNIGRAMS).alpha_and_beta
    assert alpha == pytest.approx(21.1)
    assert beta == pytest.approx(119.5667, abs=1e-4)
    assert stats.beta(alpha, beta).mean() == pytest.approx(0.15)
    assert stats.beta(alpha, beta).std() == pytest.approx(0.03)


def deleted_by_line(noisy: NoisedBatch) -> np.ndarray:
    return LENGTH - np.asarray(noisy.block.lengths)


def test_deleted_shares_follow_a_beta_distribution() -> None:
    counts = deleted_by_line(noised())
    alpha, beta = DenoisingNoise(UNIGRAMS).alpha_and_beta
    expected = stats.betabinom(LENGTH, alpha, beta)
    ends = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    cumulated = expected.cdf(ends)
    probabilities = np.diff([0, *cumulated, 1])
    seen = np.bincount(np.minimum(counts, len(ends)), minlength=len(ends) + 1)
    assert stats.chisquare(seen, probabilities * LINES).pvalue > 0.001


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [(0.05, 0.15), (0.15, 0.2), (0.95, 0.15), (0.5, 0.45), (0.01, 0.09), (0.001, 0.03)],
)
def test_shares_of_a_density_that_is_infinite_at_the_ends(mean: float, deviation: float) -> None:
    uniform = (np.arange(200_000) + 0.5) / 200_000
    shares = np.interp(uniform, *DenoisingNoise(UNIGRAMS, mean, deviation).shares)
    assert shares.mean() == pytest.approx(mean, abs=0.001, rel=0.02)
    assert shares.std() == pytest.approx(deviation, abs=0.001)


def test_replaced_share_has_the_mean() -> None:
    noisy = noised()
    replaced = np.isin(noisy.block.tokens, ["x", "y"])
    assert replaced.mean() == pytest.approx(0.15, abs=0.005)
    assert (noisy.block.tokens[replaced] == "x").mean() == pytest.approx(2 / 3, abs=0.02)
    assert (noisy.origin >= 0).all(), "a replaced word stands where the clean one stood"


def test_adjacent_words_swap_with_the_probability_of_two_normals() -> None:
    clean = TokenBatch.of_words(["a b"] * 40_000)
    noise = DenoisingNoise(UNIGRAMS, mean=1e-6, deviation=1e-7)
    swapped = [
        line == "b a" for line in noise(clean, Random.of((1,), len(clean.lengths))).block.to_lines()
    ]
    # i + N(0, s) > i + 1 + N(0, s): a normal with standard deviation s sqrt(2) is above 1
    expected = 1 - stats.norm.cdf(1 / (0.5 * math.sqrt(2)))
    assert np.mean(swapped) == pytest.approx(expected, abs=0.005)


def test_the_order_of_operations_is_random() -> None:
    """A word that is shuffled after a deletion swaps more often than one shuffled before it."""
    clean = TokenBatch.of_words(["a b c"] * 60_000)
    noise = DenoisingNoise(UNIGRAMS, mean=0.34, deviation=0.01)
    lines = noise(clean, Random.of((1,), len(clean.lengths))).block.to_lines()
    kept = [line for line in lines if sorted(line.split()) == ["a", "c"]]
    share = sum(line == "c a" for line in kept) / len(kept)
    near = 1 - stats.norm.cdf(1 / (0.5 * math.sqrt(2)))  # shuffled after b was deleted
    far = 1 - stats.norm.cdf(2 / (0.5 * math.sqrt(2)))  # shuffled before b was deleted
    assert share == pytest.approx((near + far) / 2, abs=0.01)
    assert far < share - 0.02 < near - 0.02
