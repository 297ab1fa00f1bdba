"""Noise that changes whole tokens: direct noise, shuffling and negative examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chisquare

from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.tokens import DirectNoise, NegativeExampleNoise, ShuffleNoise, Unigrams

INSERTED, UNIGRAMS = Unigrams.of({"x": 2, "y": 1})
X, Y, MASK = range(3)
TABLE = WordTable([*INSERTED, "<mask>"])


def actions(noise: DirectNoise, clean: TokenBatch, seed: int = 1) -> list[int]:
    """Count keep, mask, delete and insert operations by comparing clean and noisy lines."""
    counts = [0, 0, 0, 0]
    for before, after in zip(
        TABLE.to_lines(clean),
        TABLE.to_lines(noise(clean, Random.of((seed,), len(clean.lengths))).block),
        strict=True,
    ):
        words = after.split()
        for word in before.split():  # the words of a line are unique, but masks have no word
            if word in words:
                at = words.index(word)
                counts[3 if words[at + 1 : at + 2] in (["x"], ["y"]) else 0] += 1
        counts[1] += words.count("<mask>")
        counts[2] += len(before.split()) - sum(word in words for word in before.split())
    counts[2] -= counts[1]
    return counts


def test_default_rates_are_those_of_the_thesis() -> None:
    clean = TABLE.start_lines([" ".join(f"w{i}" for i in range(40))] * 2500)
    counts = actions(DirectNoise(UNIGRAMS, MASK), clean)
    assert sum(counts) == 100_000
    assert chisquare(counts, [20_000, 30_000, 25_000, 25_000]).pvalue > 0.001


@pytest.mark.parametrize(("keep", "mask"), [(0.1, 0.9), (1.0, 0.0), (0.0, 0.0), (0.5, 0.1)])
def test_other_rates(keep: float, mask: float) -> None:
    clean = TABLE.start_lines([" ".join(f"w{i}" for i in range(40))] * 500)
    half = (1 - keep - mask) / 2
    counts = actions(DirectNoise(UNIGRAMS, MASK, keep, mask), clean)
    for found, rate in zip(counts, (keep, mask, half, half), strict=True):
        assert found == pytest.approx(20_000 * rate, abs=500)


def test_inserted_words_are_sampled_from_the_unigrams() -> None:
    clean = TABLE.start_lines(["a b c d e f g h"] * 3000)
    noisy = DirectNoise(UNIGRAMS, MASK)(clean, Random.of((2,), len(clean.lengths)))
    inserted = noisy.block.tokens[noisy.origin < 0]
    assert set(inserted) == {X, Y}
    assert (inserted == X).mean() == pytest.approx(2 / 3, abs=0.02)
    starts = noisy.block.place == 0
    assert (noisy.origin[starts] >= 0).all(), "nothing is put before the first word"


LENGTH, COUNT = 30, 4000
SENTENCES = TABLE.start_lines([" ".join(f"w{i}" for i in range(LENGTH))] * COUNT)


def denoised(seed: int = 1, **options: float) -> NoisedBatch:
    return ShuffleNoise(UNIGRAMS, **options)(SENTENCES, Random.of((seed,), len(SENTENCES.lengths)))


def test_alpha_and_beta_have_the_papers_mean_and_standard_deviation() -> None:
    alpha, beta = ShuffleNoise(UNIGRAMS).alpha_and_beta
    assert alpha == pytest.approx(21.1)
    assert beta == pytest.approx(119.5667, abs=1e-4)
    assert stats.beta(alpha, beta).mean() == pytest.approx(0.15)
    assert stats.beta(alpha, beta).std() == pytest.approx(0.03)


def deleted_by_line(noisy: NoisedBatch) -> np.ndarray:
    return LENGTH - np.asarray(noisy.block.lengths)


def test_deleted_shares_follow_a_beta_distribution() -> None:
    counts = deleted_by_line(denoised())
    alpha, beta = ShuffleNoise(UNIGRAMS).alpha_and_beta
    expected = stats.betabinom(LENGTH, alpha, beta)
    ends = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    cumulated = expected.cdf(ends)
    probabilities = np.diff([0, *cumulated, 1])
    seen = np.bincount(np.minimum(counts, len(ends)), minlength=len(ends) + 1)
    assert stats.chisquare(seen, probabilities * COUNT).pvalue > 0.001


@pytest.mark.parametrize(
    ("mean", "std"),
    [(0.05, 0.15), (0.15, 0.2), (0.95, 0.15), (0.5, 0.45), (0.01, 0.09), (0.001, 0.03)],
)
def test_shares_of_a_density_that_is_infinite_at_the_ends(mean: float, std: float) -> None:
    uniform = (np.arange(200_000) + 0.5) / 200_000
    shares = np.interp(uniform, *ShuffleNoise(UNIGRAMS, mean, std).shares)
    assert shares.mean() == pytest.approx(mean, abs=0.001, rel=0.02)
    assert shares.std() == pytest.approx(std, abs=0.001)


def test_replaced_share_has_the_mean() -> None:
    noisy = denoised()
    replaced = np.isin(noisy.block.tokens, [X, Y])
    assert replaced.mean() == pytest.approx(0.15, abs=0.005)
    assert (noisy.block.tokens[replaced] == X).mean() == pytest.approx(2 / 3, abs=0.02)
    assert (noisy.origin >= 0).all(), "a replaced word stands where the clean one stood"


def test_adjacent_words_swap_with_the_probability_of_two_normals() -> None:
    clean = TABLE.start_lines(["a b"] * 40_000)
    noise = ShuffleNoise(UNIGRAMS, mean=1e-6, std=1e-7)
    noisy = noise(clean, Random.of((1,), len(clean.lengths)))
    swapped = [line == "b a" for line in TABLE.to_lines(noisy.block)]
    # i + N(0, s) > i + 1 + N(0, s): a normal with standard deviation s sqrt(2) is above 1
    expected = 1 - stats.norm.cdf(1 / (0.5 * math.sqrt(2)))
    assert np.mean(swapped) == pytest.approx(expected, abs=0.005)


def test_the_order_of_operations_is_random() -> None:
    """A word that is shuffled after a deletion swaps more often than one shuffled before it."""
    clean = TABLE.start_lines(["a b c"] * 60_000)
    noise = ShuffleNoise(UNIGRAMS, mean=0.34, std=0.01)
    lines = TABLE.to_lines(noise(clean, Random.of((1,), len(clean.lengths))).block)
    kept = [line for line in lines if sorted(line.split()) == ["a", "c"]]
    share = sum(line == "c a" for line in kept) / len(kept)
    near = 1 - stats.norm.cdf(1 / (0.5 * math.sqrt(2)))  # shuffled after b was deleted
    far = 1 - stats.norm.cdf(2 / (0.5 * math.sqrt(2)))  # shuffled before b was deleted
    assert share == pytest.approx((near + far) / 2, abs=0.01)
    assert far < share - 0.02 < near - 0.02


CLEAN = TABLE.start_lines([" ".join(f"w{i}" for i in range(40))] * 1000)


def noised(clean: TokenBatch, *options: float) -> NoisedBatch:
    """Add noise with the options delete, replace and distance."""
    return NegativeExampleNoise(UNIGRAMS, *options)(clean, Random.of((1,), len(clean.lengths)))


@pytest.mark.parametrize(("delete", "replace"), [(0.1, 0.1), (0.3, 0.0), (0.5, 0.5)])
def test_rates(delete: float, replace: float) -> None:
    tokens = noised(CLEAN, delete, replace).block.tokens
    assert len(tokens) / 40_000 == pytest.approx(1 - delete, abs=0.01)
    drawn = tokens[np.isin(tokens, [X, Y])]
    assert len(drawn) / 40_000 == pytest.approx(replace, abs=0.01)
    if replace:
        assert (drawn == X).mean() == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize(("distance", "places"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_words_move_less_than_the_distance(distance: float, places: int) -> None:
    """A word passes only words whose distance to it is lower than the maximum."""
    noisy = noised(CLEAN, 0, 0.1, distance)
    moved = noisy.block.place - CLEAN.place[noisy.origin]
    assert [moved.min(), moved.max()] == [-places, places]


def test_each_line_is_changed() -> None:
    clean = TABLE.start_lines(["a", "", "b c", "", "d"] * 50)
    noisy = noised(clean, 0, 0, 0)
    assert noisy.block.lengths.tolist() == clean.lengths.tolist()
    replaced = np.isin(noisy.block.tokens, [X, Y])
    assert noisy.block.lengths_of(replaced).tolist() == [1, 0, 1, 0, 1] * 50
