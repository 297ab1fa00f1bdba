"""Token batches, random numbers, changed tokens, and noise chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from fairseq_ssl.noise.batch import (
    Noise,
    NoiseChain,
    NoisedBatch,
    Random,
    TokenBatch,
    keep_one_per_line,
    repeated,
)
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.characters import CharacterNoise, ConfusionNoise
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner import LearnerNoise
from fairseq_ssl.noise.tokens import DirectNoise, NegativeExampleNoise, ShuffleNoise, Unigrams

INSERTED, UNIGRAMS = Unigrams.of({"x": 5, "y": 1})
TABLE = WordTable([*INSERTED, "<mask>"])
MASK = 2
KINDS: dict[str, Noise] = {
    "direct": DirectNoise(UNIGRAMS, MASK),
    "shuffle": ShuffleNoise(UNIGRAMS, mean=0.3, std=0.1, sigma=1.0),
    "negatives": NegativeExampleNoise(UNIGRAMS, 0.9, 0.05),
    "characters": CharacterNoise(rate=0.2, table=TABLE),
    "confusion": ConfusionNoise({"a": ("b", "c")}, UNIGRAMS, mean=0.5, table=TABLE),
    "learner": LearnerNoise(DEFAULT_ERRORS, table=TABLE),
    "learner, listed": LearnerNoise(DEFAULT_ERRORS, listed=True, table=TABLE),
    "both": NoiseChain([DirectNoise(UNIGRAMS, MASK, 0.5, 0.2), ShuffleNoise(UNIGRAMS)]),
}
LINES = st.lists(st.lists(st.sampled_from("abcde"), max_size=9).map(" ".join), max_size=6)


def test_lines_of_words_round_trip() -> None:
    lines = ["a b  c", "", "d"]
    block = TABLE.start_lines(lines)
    assert TABLE.to_lines(block) == ["a b c", "", "d"]
    assert block.line.tolist() == [0, 0, 0, 2]
    assert block.place.tolist() == [0, 1, 2, 0]


def test_changed_tokens_of_an_example() -> None:
    clean = TokenBatch(np.frombuffer(b"abcdef", np.uint8), np.array([4, 2]))
    # a is deleted, b and c are swapped, d is kept, e is replaced, f is kept, x is inserted
    block = TokenBatch(np.frombuffer(b"cbdzxf", np.uint8), np.array([3, 3]))
    noisy = NoisedBatch(block, np.array([2, 1, 3, 4, -1, 5]))
    assert noisy.changed(clean).tolist() == [True, True, True, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
@given(lines=LINES, seed=st.integers(0, 999))
def test_unchanged_tokens_keep_their_order(kind: str, lines: list[str], seed: int) -> None:
    clean = TABLE.start_lines(lines)
    noisy = KINDS[kind](clean, Random.of((seed,), len(lines)))
    changed = noisy.changed(clean, TABLE.words.same)
    after = TABLE.to_lines(noisy.block)
    assert len(after) == len(lines)
    for number, line in enumerate(after):
        expected = TABLE.strings(clean.tokens[(clean.line == number) & ~changed])
        words = iter(line.split())
        assert all(any(word == other for other in words) for word in expected)
    from_clean = noisy.origin >= 0
    assert (clean.line[noisy.origin[from_clean]] == noisy.block.line[from_clean]).all()
    assert (noisy.block.lengths > 0).tolist() == (clean.lengths > 0).tolist()
    assert noisy.block.lengths.sum() == len(noisy.block.tokens) == len(noisy.origin)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_gives_the_same_noise(kind: str) -> None:
    clean = TABLE.start_lines(["a b c d e f g h"] * 20)
    noisy = [KINDS[kind](clean, Random.of((seed,), 20)) for seed in (1, 1, 2)]
    first, second, other = (TABLE.to_lines(batch.block) for batch in noisy)
    assert first == second != other
    assert TABLE.to_lines(clean) == ["a b c d e f g h"] * 20, "the clean lines stay"


@pytest.mark.parametrize("kind", KINDS)
def test_noise_of_a_line_does_not_depend_on_the_batch(kind: str) -> None:
    lines = ["a b c d e f g h", "", "b c", "a d e f a b c d e f c"] * 5
    together = noisy_lines(kind, lines, np.arange(len(lines)))
    alone = [noisy_lines(kind, [line], np.array([place])) for place, line in enumerate(lines)]
    assert together == [line for (line,) in alone]


def noisy_lines(kind: str, lines: list[str], places: np.ndarray) -> list[str]:
    noisy = KINDS[kind](TABLE.start_lines(lines), Random.of((3,), places))
    return TABLE.to_lines(noisy.block)


def test_an_emptied_line_keeps_a_random_token() -> None:
    block = TABLE.start_lines(["a b c", "", "d e"] * 3000)
    deleted = np.ones(len(block.tokens), dtype=np.bool_)
    deleted[block.line % 3 == 2] = False
    spared = ~keep_one_per_line(block, deleted, Random.of((1,), 9000))
    lines = spared[block.line % 3 == 0].reshape(-1, 3)
    assert (lines.sum(1) == 1).all()
    np.testing.assert_allclose(lines.mean(0), 1 / 3, atol=0.03)
    assert spared[block.line % 3 == 2].all()


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_tokens_are_repeated(most: int) -> None:
    times = np.random.default_rng(1).integers(0, most + 1, 50).astype(np.int8)
    clean = TokenBatch(np.arange(100, 150), np.array([20, 0, 30]))
    noisy = repeated(clean, times)
    assert noisy.origin.tolist() == [at for at in range(50) for _ in range(times[at])]
    assert noisy.block.tokens.tolist() == [100 + at for at in noisy.origin]
    assert noisy.block.lengths.tolist() == [times[:20].sum(), 0, times[20:].sum()]


def test_unigrams_are_sampled_by_their_counts() -> None:
    from scipy.stats import chisquare

    counts = {"the": 6000, "of": 3000, "rare": 1, "b": 999}
    words, unigrams = Unigrams.of(counts)
    drawn = unigrams.at(np.random.default_rng(1).random(200_000))
    seen = [int((drawn == words.index(word)).sum()) for word in counts]
    assert sum(seen) == 200_000
    assert chisquare(seen, [20 * count for count in counts.values()]).pvalue > 0.001


def test_sampling_of_rare_words_equals_binary_search() -> None:
    counts = {f"{n:05}": 100_000 if n % 1000 == 0 else 1 + n % 3 for n in range(20_000)}
    _, unigrams = Unigrams.of(counts)
    uniform = np.append(np.random.default_rng(1).random(100_000), [0.0, 1 - 2.0**-53])
    plain = np.searchsorted(unigrams.up_to, np.floor(uniform * unigrams.up_to[-1]), side="right")
    assert (unigrams.at(uniform) == np.minimum(plain, 19_999)).all()


BLOCK = TokenBatch(np.zeros(200_000, np.int64), np.full(8_000, 25))


def test_numbers_are_uniform_over_positions_lines_and_calls() -> None:
    draws = Random.of((1,), 8_000)
    numbers = np.stack([draws.tokens(BLOCK), draws.tokens(BLOCK)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    for some in (numbers[0], numbers[:, ::25].ravel(), draws.lines()):
        assert kstest(some, "uniform").pvalue > 0.001
    draws = Random.of((4,), 8_000)
    for some in (draws.normal(BLOCK), draws.normal_lines()):
        assert kstest(some, "norm").pvalue > 0.001
    at = np.array([3, 77, 199_999])
    np.testing.assert_array_equal(Random.of((1,), 8_000).tokens(BLOCK, at), numbers[0][at])


def test_adjacent_numbers_are_independent() -> None:
    draws = Random.of((2,), 8_000)
    first, second = draws.tokens(BLOCK), draws.tokens(BLOCK)
    pairs = {
        "next place": (first[:-1], first[1:]),
        "next line": (first[:-25], first[25:]),
        "next call": (first, second),
        "next seed": (first, Random.of((3,), 8_000).tokens(BLOCK)),
        "of the line": (first[::25], draws.lines()),
    }
    for name, (one, other) in pairs.items():
        cells = (10 * one).astype(int) * 10 + (10 * other).astype(int)
        assert chisquare(np.bincount(cells, minlength=100)).pvalue > 0.0005, name


def test_numbers_equal_splitmix64() -> None:
    """Compare with the first numbers of Vigna's reference implementation for state 1234567."""
    draws = Random(np.array([1234567], np.uint64))
    block = TokenBatch(np.zeros(5, np.int64), np.array([5]))
    reference = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    # the reference adds G before it mixes, so its first number is our place 1
    expected = [(number >> 11) * 2.0**-53 for number in reference]
    np.testing.assert_array_equal(draws.tokens(block)[1:4], expected)


def test_keys_depend_on_seeds_and_line_indices() -> None:
    whole = Random.of((7, 3), 10).keys
    np.testing.assert_array_equal(Random.of((7, 3), np.array([4, 9])).keys, whole[[4, 9]])
    assert len({*whole.tolist(), *Random.of((7, 4), 10).keys.tolist()}) == 20
