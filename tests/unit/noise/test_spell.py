"""Spell noise: number of changed words, operations, and changed letters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, foldnorm, kstest

from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.characters import SpellNoise
from fairseq_ssl.noise.tokens import Unigrams

UNIGRAMS = Unigrams.of({"zzz": 1})
LENGTH = 60
WORDS = [f"w{i}" for i in range(LENGTH)]
CONFUSIONS = {word: (f"{word}!", f"{word}?") for word in WORDS}
CLEAN = TokenBatch.of_words([" ".join(WORDS)] * 3000)


def noised(**options: float) -> NoisedBatch:
    noise = SpellNoise(CONFUSIONS, UNIGRAMS, **{"letter_words": 0.0, **options})  # type: ignore[arg-type]
    return noise(CLEAN, Random.of((1,), len(CLEAN.lengths)))


def test_operations_have_their_probabilities() -> None:
    noisy = noised(mean=0.1, deviation=0.0)  # 6 words of each line
    words = noisy.block.tokens
    first, second = (sum(word[-1] == end for word in words) for end in "!?")
    assert chisquare([first, second]).pvalue > 0.001
    substituted = first + second
    inserted = int((words == "zzz").sum())
    deleted = len(CLEAN.tokens) + inserted - len(words)
    swapped = 6 * 3000 - substituted - inserted - deleted
    seen = [substituted, swapped, deleted, inserted]
    assert chisquare(seen, [0.7 * 18000, 1800, 1800, 1800]).pvalue > 0.001
    moved = noisy.changed(CLEAN).sum() - substituted - deleted
    assert 1.7 * swapped < moved < 2.1 * swapped, "two words each, but where they meet"


def test_share_of_changed_words_is_folded_normal() -> None:
    noise = SpellNoise(CONFUSIONS, UNIGRAMS)
    chosen = (
        noise._choose_words(CLEAN, Random.of((1,), len(CLEAN.lengths))).reshape(-1, LENGTH).sum(1)
    )
    drawn = (chosen + np.random.default_rng(2).random(len(chosen))) / LENGTH  # undo the floor
    below = drawn < 0.9
    law = foldnorm(0.15 / 0.2, scale=0.2)
    assert kstest(drawn[below], lambda x: law.cdf(x) / law.cdf(0.9)).pvalue > 0.001
    places = (
        noise._choose_words(CLEAN, Random.of((1,), len(CLEAN.lengths))).reshape(-1, LENGTH).sum(0)
    )
    assert chisquare(places).pvalue > 0.001, "each place is as likely"


def test_swapped_words_are_adjacent() -> None:
    clean = TokenBatch.of_words(["a b"] * 5000)
    noise = SpellNoise({}, UNIGRAMS, mean=0.5, deviation=0.0, letter_words=0.0)
    lines = noise(clean, Random.of((1,), len(clean.lengths))).block.to_lines()
    assert lines.count("b a") == pytest.approx(500, abs=90)
    assert lines.count("a b") == pytest.approx(3500, abs=150), "words without confusions stay"
    assert set(lines) == {"a b", "b a", "a", "b", "a zzz b", "a b zzz"}


def test_letters_change_in_a_tenth_of_the_words() -> None:
    clean = TokenBatch.of_words(["abcdefgh " * 20] * 3000)
    noise = SpellNoise({}, UNIGRAMS, mean=0.0, deviation=0.0, letters="z")
    noisy = noise(clean, Random.of((1,), len(clean.lengths)))
    wrong = noisy.block.tokens[noisy.changed(clean)]
    assert len(wrong) == pytest.approx(6000, abs=300)
    lengths = [len(word) for word in wrong]
    shares = [lengths.count(8), lengths.count(7), lengths.count(9)]
    assert chisquare(shares, [0.8 * len(wrong), 0.1 * len(wrong), 0.1 * len(wrong)]).pvalue > 0.001
