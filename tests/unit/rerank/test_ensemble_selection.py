"""Post-ensembles of examples; reading and training of word vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairseq_ssl.rerank.ensemble_selection import (
    MeanVectors,
    choose_output,
    similarities,
)
from fairseq_ssl.rerank.word_vectors import VectorTable

VECTORS = VectorTable(
    {
        word: np.array(vector, np.float32)
        for word, vector in {
            "east": (1, 0),
            "north": (0, 2),
            "west": (-1, 0),
            "far": (3, 0),
        }.items()
    },
    2,
)
ROOT = math.sqrt(0.5)


def test_mean_of_known_words() -> None:
    means = MeanVectors(VECTORS)
    assert means("east") == pytest.approx([1, 0])
    assert means("east north east") == pytest.approx(np.array([2, 2]) / math.sqrt(8))
    assert means("far unknown north") == pytest.approx(np.array([3, 2]) / math.sqrt(13))
    assert (means.known, means.words) == (6, 7)
    for nothing in ("", "unknown", "east west"):
        assert means(nothing).tolist() == [0, 0]
    assert MeanVectors(VECTORS, lambda line: line.replace("-", " "))("east-east") == pytest.approx(
        [1, 0]
    )


def test_similarities_of_an_example() -> None:
    """Of the vectors at 0, 45 and 90 degrees, the second one has the highest density."""
    directions = np.array([[1, 0], [ROOT, ROOT], [0, 1]])
    assert similarities(directions) == pytest.approx([ROOT / 2, ROOT, ROOT / 2])
    kappa = 2.5
    end = (math.exp(kappa * ROOT) + 1) / 2
    found = similarities(directions, kappa)
    assert np.exp(kappa * found) == pytest.approx([end, math.exp(kappa * ROOT), end])
    weights = np.array([3.0, 1, 0])
    expected = [(3 + ROOT) / 4, (3 * ROOT + 1) / 4, ROOT / 4]
    assert similarities(directions, 0.0, weights) == pytest.approx(expected)


def test_similarities_have_the_order_of_the_densities_of_the_paper() -> None:
    """The density of an output includes its own kernel."""
    drawn = np.random.default_rng(0)
    for _ in range(50):
        directions = drawn.normal(size=(5, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        weights = drawn.choice([np.ones(5), drawn.uniform(0.5, 2, 5)])
        kappa = drawn.uniform(0.5, 8)
        densities = np.exp(kappa * directions @ directions.T) @ weights
        found = similarities(directions, kappa, weights)
        assert found.argsort().tolist() == densities.argsort().tolist()


def test_zero_vectors() -> None:
    found = similarities(np.array([[0, 0], [1, 0], [-1, 0]]), 1.0)
    assert found.tolist() == [-np.inf, -1, -1]
    assert similarities(np.array([[0, 0], [1, 0]])).tolist() == [-np.inf, 0]
    assert similarities(np.array([[0, 0], [1, 0]]), 2.0, np.array([1, 0])).tolist()[0] == -np.inf


@pytest.mark.parametrize("kappa", [1e-12, 1e-9, 1e-3, 1.0, 50.0, 1e3, 1e6])
def test_no_concentration_is_too_small_or_too_large(kappa: float) -> None:
    table = {"dog": (0, 1), "cat": (1, 0), "cats": (0.8, 0.6)}
    vectors = VectorTable({word: np.array(row) for word, row in table.items()}, 2)
    chosen = choose_output(list(table), MeanVectors(vectors), kappa)
    assert chosen == (2 if kappa < 100 else 1)  # exp(-100) decides nothing: a tie
    assert choose_output(["dog", "cat"], MeanVectors(vectors), kappa, np.array([1.0, 2])) == 1


def test_most_similar_output_is_chosen_with_ties_to_the_first() -> None:
    means = MeanVectors(VECTORS)
    assert choose_output(["north", "east", "far"], means) == 1
    assert choose_output(["west", "north", "east"], means) == 1
    assert choose_output(["north", "east"], means) == 0
    assert choose_output(["unknown", "", "west", "east"], means) == 2
    assert choose_output(["", "unknown"], means) == 0
    assert choose_output(["north", "east", "far"], means, 0.0, np.array([3.0, 1, 1])) == 0


def test_two_systems_tie() -> None:
    """Even if the cosine of a vector with itself is rounded to less than 1."""
    for seed in range(30):
        drawn = np.random.default_rng(seed).normal(size=(2, 7)).astype(np.float32)
        means = MeanVectors(VectorTable(dict(zip("ab", drawn, strict=True)), 7))
        assert choose_output(["a", "b"], means) == 0
        assert choose_output(["b", "a"], means, 3.0) == 0
