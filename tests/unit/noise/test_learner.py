"""Learner noise: comparison with a slow reference, and properties of each kind of error."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fairseq_ssl.errors import UsageError
from fairseq_ssl.noise.batch import NoisedBatch, Random
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner import APPEND, DELETE, REPLACE, VERB, LearnerNoise
from fairseq_ssl.noise.learner_errors import LearnerErrors, verb_forms

WORDS = LearnerErrors(
    deleted={"SPUR": 6, "IOUS": 3, "rare": 1},
    missing={"the": 5, "of": 2},
    replaced={"in": {"on": 3, "at": 1}, "of": {"for": 1}},
    errors=(10, 0, 0, 0, 90),
    kinds={"append": 1, "verb": 0, "replace": 0, "delete": 3},
)
NO_VERBS = [f"{word}_{i}" for i, word in enumerate(["the", "of", "in", "and"] * 10)]


def noised(noise: LearnerNoise, line: list[str], times: int, seed: int = 1) -> NoisedBatch:
    """Add noise to `times` copies of a line."""
    return noise(noise.table.start_lines([" ".join(line)] * times), Random.of((seed,), times))


def slow(noise: LearnerNoise, line: list[str], draws: Random) -> tuple[list[str], list[int]]:
    """Slow reference for one line. Return the noisy words and their origins."""
    words, origin = list(line), list(range(len(line)))
    number = pick(noise._counted.errors, float(draws.lines()[0]))
    for error in range(len(noise._counted.errors) - 1):
        kind = pick(noise._shares, float(draws.lines()[0]))
        place, other = (float(draws.lines()[0]) for _ in range(2))
        if error >= number or not words:
            continue
        kind, at = settle(noise, words, kind, place)
        if kind == APPEND:
            del words[at], origin[at]
        elif kind == DELETE:
            words.insert(at, spurious(other))
            origin.insert(at, -1)
        elif kind == VERB:
            forms = verb_forms(words[at])
            words[at] = forms[int(other * len(forms))]
        elif kind == REPLACE and noise.listed:
            written = WORDS.replaced[words[at]]
            words[at] = list(written)[pick(list(written.values()), other)]
        elif kind == REPLACE:
            words[at] = spurious(other)
    return words, origin


def settle(noise: LearnerNoise, words: list[str], kind: int, place: float) -> tuple[int, int]:
    """Return the kind of error after fallbacks, 4 for none, and the index of its word."""
    if kind == DELETE:
        return kind, int(place * (len(words) + 1))
    tries = {APPEND: [APPEND], VERB: [VERB, REPLACE], REPLACE: [REPLACE, VERB]}[kind]
    listed = {APPEND: WORDS.missing, REPLACE: WORDS.replaced}
    for attempt in tries:
        if attempt == APPEND and len(words) == 1:
            continue
        fitting = [
            at
            for at, word in enumerate(words)
            if (attempt == VERB and verb_forms(word))
            or (attempt != VERB and (not noise.listed or word in listed[attempt]))
        ]
        if fitting:
            return attempt, fitting[int(place * len(fitting))]
    return 4, 0


def spurious(uniform: float) -> str:
    words = sorted(WORDS.deleted)
    return words[pick([WORDS.deleted[word] for word in words], uniform)]


def pick(weights: tuple[float, ...] | list[int], uniform: float) -> int:
    up_to = list(accumulate(weights))
    return bisect_right(up_to[:-1], uniform * up_to[-1])


LINES = st.lists(
    st.lists(st.sampled_from(["the", "of", "in", "was", "Goes", "x", "."]), max_size=7), max_size=5
)


@pytest.mark.parametrize("listed", [False, True])
@given(lines=LINES, seed=st.integers(0, 9999))
@settings(max_examples=300)  # the list of verbs is loaded in the first
def test_it_equals_a_slow_reference(listed: bool, lines: list[list[str]], seed: int) -> None:
    noise = LearnerNoise(WORDS, listed=listed)
    clean = noise.table.start_lines(" ".join(line) for line in lines)
    noisy = noise(clean, Random.of((seed,), len(lines)))
    starts = (clean.ends - clean.lengths).tolist()
    for number, line in enumerate(lines):
        words, origin = slow(noise, line, Random.of((seed,), np.array([number])))
        mine = noisy.block.line == number
        assert noise.table.strings(noisy.block.tokens[mine]) == words
        assert noisy.origin[mine].tolist() == [o if o < 0 else o + starts[number] for o in origin]
        assert bool(words) == bool(line), "a line never becomes empty, a blank one stays blank"


def test_probabilities_are_those_of_the_paper() -> None:
    assert LearnerNoise(WORDS)._counted.errors == (5, 7, 25, 35, 28)
    shares = {APPEND: 30, VERB: 25, REPLACE: 25, DELETE: 20}
    assert LearnerNoise(WORDS)._shares == tuple(shares[kind] for kind in range(4))
    kinds = {**dict.fromkeys(WORDS.kinds, 0), "delete": 1}
    counts = replace(WORDS, errors=(5, 7, 25, 35, 28), kinds=kinds)
    inserting = LearnerNoise(counts, measured=True)
    seen = np.bincount(noised(inserting, NO_VERBS, 20_000).block.lengths - 40, minlength=5)
    assert chisquare(seen, [1000, 1400, 5000, 7000, 5600]).pvalue > 0.001


def test_measured_errors_follow_the_counts() -> None:
    longer = noised(LearnerNoise(WORDS, measured=True), NO_VERBS, 8000).block.lengths - 40
    chances = [0.9 * comb(4, n) * 0.75**n * 0.25 ** (4 - n) for n in range(5)]
    chances[2] += 0.1  # no error, or two words put in and two left out
    seen = np.bincount((longer + 4) // 2, minlength=5)
    assert chisquare(seen, np.array(chances) * 8000).pvalue > 0.001


def test_built_in_errors_are_the_default() -> None:
    assert LearnerNoise().learner_errors is DEFAULT_ERRORS
    assert DEFAULT_ERRORS.errors == (5, 7, 25, 35, 28)
    assert list(DEFAULT_ERRORS.kinds.values()) == [30, 25, 25, 20]
    assert all(word not in others for word, others in DEFAULT_ERRORS.replaced.items())
    noise = LearnerNoise()
    noisy = noised(noise, ["I", "like", "to", "read", "it", "in", "the", "sun"], 200)
    assert len(set(noise.table.to_lines(noisy.block))) > 100


def test_measured_needs_counts() -> None:
    no_kinds = dict.fromkeys(WORDS.kinds, 0)
    for errors, kinds in (((0, 0), no_kinds), ((0, 1), no_kinds), ((0, 0), WORDS.kinds)):
        partial = LearnerErrors({"a": 1}, {}, {}, errors, kinds)
        LearnerNoise(partial)
        with pytest.raises(UsageError):
            LearnerNoise(partial, measured=True)
    with pytest.raises(UsageError, match="needs a file of learner errors"):
        LearnerNoise(measured=True)
