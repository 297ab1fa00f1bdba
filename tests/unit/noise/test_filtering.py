"""Filtering noise: rates of deletions and replacements, and distances of moved words."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.tokens import FilteringNoise, Unigrams

UNIGRAMS = Unigrams.of({"x": 2, "y": 1})
CLEAN = TokenBatch.of_words([" ".join(f"w{i}" for i in range(40))] * 1000)


def noised(clean: TokenBatch, *options: float) -> NoisedBatch:
    """Add noise with the options delete, replace and distance."""
    return FilteringNoise(UNIGRAMS, *options)(clean, Random.of((1,), len(clean.lengths)))


@pytest.mark.parametrize(("delete", "replace"), [(0.1, 0.1), (0.3, 0.0), (0.5, 0.5)])
def test_rates(delete: float, replace: float) -> None:
    tokens = noised(CLEAN, delete, replace).block.tokens
    assert len(tokens) / 40_000 == pytest.approx(1 - delete, abs=0.01)
    drawn = tokens[np.isin(tokens, ["x", "y"])]
    assert len(drawn) / 40_000 == pytest.approx(replace, abs=0.01)
    if replace:
        assert (drawn == "x").mean() == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize(("distance", "places"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_words_move_less_than_the_distance(distance: float, places: int) -> None:
    """A word passes only words whose distance to it is lower than the maximum."""
    noisy = noised(CLEAN, 0, 0.1, distance)
    moved = noisy.block.place - CLEAN.place[noisy.origin]
    assert (moved.min(), moved.max()) == (-places, places)


def test_each_line_is_changed() -> None:
    clean = TokenBatch.of_words(["a", "", "b c", "", "d"] * 50)
    noisy = noised(clean, 0, 0, 0)
    assert noisy.block.lengths.tolist() == clean.lengths.tolist()
    replaced = np.isin(noisy.block.tokens, ["x", "y"])
    assert noisy.block.lengths_of(replaced).tolist() == [1, 0, 1, 0, 1] * 50


def test_lines_keep_a_word() -> None:
    assert noised(CLEAN, 1, 0).block.lengths.tolist() == [1] * 1000
