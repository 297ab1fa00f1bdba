"""Direct noise: rates of the four operations of algorithm 2."""

from __future__ import annotations

import pytest
from scipy.stats import chisquare

from fairseq_ssl.noise.batch import Random, TokenBatch
from fairseq_ssl.noise.tokens import DirectNoise, Unigrams

UNIGRAMS = Unigrams.of({"x": 2, "y": 1})


def actions(noise: DirectNoise, clean: TokenBatch, seed: int = 1) -> list[int]:
    """Count keep, mask, delete and insert operations by comparing clean and noisy lines."""
    counts = [0, 0, 0, 0]
    for before, after in zip(
        clean.to_lines(),
        noise(clean, Random.of((seed,), len(clean.lengths))).block.to_lines(),
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
    clean = TokenBatch.of_words([" ".join(f"w{i}" for i in range(40))] * 2500)
    counts = actions(DirectNoise(UNIGRAMS), clean)
    assert sum(counts) == 100_000
    assert chisquare(counts, [20_000, 30_000, 25_000, 25_000]).pvalue > 0.001


@pytest.mark.parametrize(("keep", "mask"), [(0.1, 0.9), (1.0, 0.0), (0.0, 0.0), (0.5, 0.1)])
def test_other_rates(keep: float, mask: float) -> None:
    clean = TokenBatch.of_words([" ".join(f"w{i}" for i in range(40))] * 500)
    half = (1 - keep - mask) / 2
    counts = actions(DirectNoise(UNIGRAMS, keep, mask), clean)
    for found, rate in zip(counts, (keep, mask, half, half), strict=True):
        assert found == pytest.approx(20_000 * rate, abs=500)


def test_inserted_words_are_sampled_from_the_unigrams() -> None:
    clean = TokenBatch.of_words(["a b c d e f g h"] * 3000)
    noisy = DirectNoise(UNIGRAMS)(clean, Random.of((2,), len(clean.lengths)))
    inserted = noisy.block.tokens[noisy.origin < 0]
    assert set(inserted) == {"x", "y"}
    assert (inserted == "x").mean() == pytest.approx(2 / 3, abs=0.02)
    starts = noisy.block.place == 0
    assert (noisy.origin[starts] >= 0).all(), "nothing is put before the first word"


def test_short_lines_keep_a_token() -> None:
    clean = TokenBatch.of_words(["a", "b c", ""] * 2000)
    noisy = DirectNoise(UNIGRAMS, keep=0.0, mask=0.0)(clean, Random.of((1,), len(clean.lengths)))
    lines = noisy.block.to_lines()
    assert all(lines[0::3])
    assert all(lines[1::3])
    assert not any(lines[2::3])
    left = [line.split()[0] for line in lines[1::3]]
    assert 0.3 < left.count("c") / len(left) < 0.45, "each of the two was spared as often"
