"""Spelling noise: rate, kinds of errors, and unchanged words."""

from __future__ import annotations

from collections import Counter

from scipy.stats import binomtest, chisquare

from fairseq_ssl.noise.batch import Random, TokenBatch
from fairseq_ssl.noise.characters import DELETE, INSERT, REPLACE, SWAP, SpellingNoise, misspell


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
    clean = TokenBatch.of_words(["abcdefgh " * 25] * 8000)
    noisy = SpellingNoise(letters="z")(clean, Random.of((1,), len(clean.lengths)))
    wrong = noisy.block.tokens[noisy.changed(clean)]
    letters = 8 * len(clean.tokens)
    expected = 1 - (1 - 0.003) ** 8
    assert binomtest(len(wrong), len(clean.tokens), expected).pvalue > 0.001
    assert letters == 1_600_000
    single = Counter(map(kind, wrong))
    assert chisquare([single[k] for k in ("delete", "insert", "replace", "swap")]).pvalue > 1e-4


def test_words_and_lines_do_not_move() -> None:
    clean = TokenBatch.of_words(["a bc <mask>", "", "def"] * 500)
    noisy = SpellingNoise(rate=0.9)(clean, Random.of((1,), len(clean.lengths)))
    assert noisy.block.lengths.tolist() == clean.lengths.tolist()
    assert all(noisy.block.tokens)
    assert (noisy.block.tokens == "<mask>").sum() == 500
    assert noisy.origin.tolist() == list(range(len(clean.tokens)))


def test_rate_0_changes_nothing() -> None:
    clean = TokenBatch.of_words(["some words"])
    noisy = SpellingNoise(0.0)(clean, Random.of((1,), len(clean.lengths)))
    assert noisy.block.to_lines() == ["some words"]
