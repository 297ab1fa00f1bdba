"""Noise that misspells words: random letters and confusion sets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, foldnorm, kstest

from fairseq_ssl.noise.batch import Random
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.characters import (
    DELETE,
    INSERT,
    REPLACE,
    SWAP,
    CharacterNoise,
    ConfusionNoise,
    misspell,
)
from fairseq_ssl.noise.tokens import Unigrams

INSERTED, UNIGRAMS = Unigrams.of({"zzz": 1})
TABLE = WordTable(INSERTED)


def test_each_edit() -> None:
    edits = {
        DELETE: ["ord", "wrd", "wod", "wor"],
        INSERT: ["xword", "wxord", "woxrd", "worxd"],
        REPLACE: ["xord", "wxrd", "woxd", "worx"],
        SWAP: ["owrd", "wrod", "wodr", "wodr"],
    }
    for slip, expected in edits.items():
        assert [misspell("word", at, slip, "x") for at in range(4)] == expected
    assert [misspell("a", 0, slip, "x") for slip in (DELETE, SWAP, REPLACE)] == ["a", "a", "x"]


def kind(word: str) -> str:
    """Return the kind of error in a misspelled 'abcdefgh', where inserted letters are others."""
    known = sum(letter in "abcdefgh" for letter in word)
    if len(word) == 7:
        return "delete"
    if len(word) == 9:
        return "insert"
    return "replace" if known == 7 else "swap"


def test_errors_have_their_rate_and_are_equally_frequent() -> None:
    clean = TABLE.start_lines(["abcdefgh " * 25] * 8000)
    noisy = CharacterNoise(letters="z", table=TABLE)(clean, Random.of((1,), len(clean.lengths)))
    wrong = TABLE.strings(noisy.block.tokens[noisy.changed(clean, TABLE.words.same)])
    letters = 8 * len(clean.tokens)
    expected = 1 - (1 - 0.003) ** 8
    assert binomtest(len(wrong), len(clean.tokens), expected).pvalue > 0.001
    assert letters == 1_600_000
    single = Counter(map(kind, wrong))
    assert chisquare([single[k] for k in ("delete", "insert", "replace", "swap")]).pvalue > 1e-4


def test_words_and_lines_do_not_move() -> None:
    clean = TABLE.start_lines(["a bc <mask>", "", "def"] * 500)
    noisy = CharacterNoise(rate=0.9, table=TABLE)(clean, Random.of((1,), len(clean.lengths)))
    assert noisy.block.lengths.tolist() == clean.lengths.tolist()
    words = TABLE.strings(noisy.block.tokens)
    assert all(words)
    assert words.count("<mask>") == 500
    assert noisy.origin.tolist() == list(range(len(clean.tokens)))


LENGTH = 60
WORDS = [f"w{i}" for i in range(LENGTH)]
CONFUSIONS = {word: (f"{word}!", f"{word}?") for word in WORDS}
LINES = [" ".join(WORDS)] * 3000


def test_operations_have_their_probabilities() -> None:
    """Six words of each line are changed."""
    clean = TABLE.start_lines(LINES)
    noise = ConfusionNoise(CONFUSIONS, UNIGRAMS, mean=0.1, std=0.0, letter_words=0.0, table=TABLE)
    noisy = noise(clean, Random.of((1,), len(LINES)))
    words = TABLE.strings(noisy.block.tokens)
    first, second = (sum(word[-1] == end for word in words) for end in "!?")
    assert chisquare([first, second]).pvalue > 0.001
    substituted = first + second
    inserted = words.count("zzz")
    deleted = len(clean.tokens) + inserted - len(words)
    swapped = 6 * 3000 - substituted - inserted - deleted
    seen = [substituted, swapped, deleted, inserted]
    assert chisquare(seen, [0.7 * 18000, 1800, 1800, 1800]).pvalue > 0.001
    moved = noisy.changed(clean, TABLE.words.same).sum() - substituted - deleted
    assert 1.7 * swapped < moved < 2.1 * swapped, "two words each, but where they meet"


def test_share_of_changed_words_is_folded_normal() -> None:
    clean, noise = TABLE.start_lines(LINES), ConfusionNoise(CONFUSIONS, UNIGRAMS)
    words = noise._choose_words(clean, Random.of((1,), len(LINES))).reshape(-1, LENGTH)
    chosen = words.sum(1)
    drawn = (chosen + np.random.default_rng(2).random(len(chosen))) / LENGTH  # undo the floor
    below = drawn < 0.9
    law = foldnorm(0.15 / 0.2, scale=0.2)
    assert kstest(drawn[below], lambda x: law.cdf(x) / law.cdf(0.9)).pvalue > 0.001
    assert chisquare(words.sum(0)).pvalue > 0.001, "each place is as likely"


def test_swapped_words_are_adjacent() -> None:
    clean = TABLE.start_lines(["a b"] * 5000)
    noise = ConfusionNoise({}, UNIGRAMS, mean=0.5, std=0.0, letter_words=0.0, table=TABLE)
    lines = TABLE.to_lines(noise(clean, Random.of((1,), len(clean.lengths))).block)
    assert lines.count("b a") == pytest.approx(500, abs=90)
    assert lines.count("a b") == pytest.approx(3500, abs=150), "words without confusions stay"
    assert set(lines) == {"a b", "b a", "a", "b", "a zzz b", "a b zzz"}


def test_letters_change_in_a_tenth_of_the_words() -> None:
    clean = TABLE.start_lines(["abcdefgh " * 20] * 3000)
    noise = ConfusionNoise({}, UNIGRAMS, mean=0.0, std=0.0, letters="z", table=TABLE)
    noisy = noise(clean, Random.of((1,), len(clean.lengths)))
    wrong = TABLE.strings(noisy.block.tokens[noisy.changed(clean, TABLE.words.same)])
    assert len(wrong) == pytest.approx(6000, abs=300)
    lengths = [len(word) for word in wrong]
    shares = [lengths.count(8), lengths.count(7), lengths.count(9)]
    assert chisquare(shares, [0.8 * len(wrong), 0.1 * len(wrong), 0.1 * len(wrong)]).pvalue > 0.001
