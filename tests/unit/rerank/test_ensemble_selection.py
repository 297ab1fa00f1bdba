"""Post-ensembles of examples; reading and training of word vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairseq_ssl.rerank.ensemble_selection import MeanVectors, choose_output, similarities
from fairseq_ssl.rerank.word_vectors import WordVectors

VECTORS = WordVectors(
    {
        word: np.array(vector, np.float32)
        for word, vector in {
            "east": (1, 0),
            "north": (0, 2),
            "west": (-1, 0),
            "far": (3, 0),
        }.items()
    }.get,
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


def test_zero_vectors() -> None:
    found = similarities(np.array([[0, 0], [1, 0], [-1, 0]]))
    assert found.tolist() == [-np.inf, -1, -1]
    assert similarities(np.array([[0, 0], [1, 0]])).tolist() == [-np.inf, 0]


def test_most_similar_output_is_chosen_with_ties_to_the_first() -> None:
    means = MeanVectors(VECTORS)
    assert choose_output(["north", "east", "far"], means) == 1
    assert choose_output(["west", "north", "east"], means) == 1
    assert choose_output(["north", "east"], means) == 0
    assert choose_output(["unknown", "", "west", "east"], means) == 2
    assert choose_output(["", "unknown"], means) == 0


def test_two_systems_tie() -> None:
    """Even if the cosine of a vector with itself is rounded to less than 1."""
    for seed in range(30):
        drawn = np.random.default_rng(seed).normal(size=(2, 7)).astype(np.float32)
        means = MeanVectors(WordVectors(dict(zip("ab", drawn, strict=True)).get, 7))
        assert choose_output(["a", "b"], means) == 0
        assert choose_output(["b", "a"], means) == 0
