"""Correction of misspelled words, compared with the formula."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.spelling import SpellingCorrector, SpellingCounts

pytest.importorskip("symspellpy")
pytest.importorskip("lemminflect")
SENTENCES = ["the people receive a letter", "we believe the people", "The receipt of a letter"]
"""Of 20 copies, all words are frequent."""


@pytest.fixture(scope="module")
def corrector() -> SpellingCorrector:
    return SpellingCorrector(SpellingCounts.of(20 * SENTENCES))


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("we recieve a leter", "we receive a letter"),
        ("we beleive the poeple .", "we believe the people ."),
        ("Recieve a LETER", "Recieve a LETER"),  # only lowercase words
        ("th leter2 xy", "th leter2 xy"),  # 3 letters or more, and nothing else
        ("a latter of thee people", "a latter of thee people"),  # known to lemminflect
        ("qqqqqqqq", "qqqqqqqq"),  # nothing to suggest
        ("", ""),
    ],
)
def test_misspelled_words_are_corrected(
    corrector: SpellingCorrector, text: str, corrected: str
) -> None:
    assert corrector.correct(text.split()) == corrected.split()


def test_counts_of_text() -> None:
    counts = SpellingCounts.of(["The cat", "the cat", "a Dog"])
    assert counts.words == {"The": 1, "the": 1, "cat": 2, "a": 1, "Dog": 1}
    assert counts.pairs == {"<s> the": 2, "the cat": 2, "cat </s>": 2}, "unique pairs are left out"


def test_suggestions_are_frequent_and_mostly_lowercase() -> None:
    def suggested(lines: list[str]) -> set[str]:
        return set(SpellingCorrector(SpellingCounts.of(lines)).checker.counts)

    assert suggested(19 * ["the cat"]) == set()
    assert suggested(20 * ["the cat Dog x1"]) == {"the", "cat"}
    assert suggested([*(20 * ["cat"]), *(20 * ["Cat"])]) == {"cat"}
    assert suggested([*(20 * ["cat"]), *(21 * ["Cat"])]) == set()


def test_frequent_words_are_not_checked() -> None:
    lines = [*(99 * ["the film"]), *(51 * ["the filmm"])]
    assert SpellingCorrector(SpellingCounts.of(lines)).correct(["filmm"]) == ["filmm"]
    assert SpellingCorrector(SpellingCounts.of(lines[:-1])).correct(["filmm"]) == ["filmm"]
    assert SpellingCorrector(SpellingCounts.of(9 * lines[:99])).correct(["filmm"]) == ["film"]


def test_the_context_chooses_among_suggestions() -> None:
    corrector = SpellingCorrector(SpellingCounts.of(30 * ["my hand is cold", "the band plays on"]))
    assert corrector.correct(["my", "xand", "is"])[1] == "hand"
    assert corrector.correct(["the", "xand", "plays"])[1] == "band"


def test_missing_capitals_are_restored() -> None:
    """I and English always have capitals inside sentences, IBM and Dog not often enough."""
    text = ["The dog and I speak English", "Yes the Dog and I say English", "the IBM Dog ran"]
    corrector = SpellingCorrector(SpellingCounts.of([*(20 * text), *(3 * ["the english ibm Dog"])]))
    assert corrector.forms == {"i": "I", "english": "English"}, "40 of 43, but 20 of 23 for IBM"

    def corrected(text: str) -> str:
        return " ".join(corrector.correct(text.split()))

    assert corrected("the dog and i ran .") == "The dog and I ran ."
    assert corrected("i say yes !") == "I say yes !"
    assert corrected("the dog and i") == "the dog and I", "not a whole sentence"
    assert corrected("2 dogs and 'i' .") == "2 dogs and 'i' ."
    assert corrected(". .") == ". ."
    corrector = SpellingCorrector(SpellingCounts.of(30 * ["My iPhone rings .", "", ""]))
    assert corrected("iphone rings .") == "iPhone rings ."
    assert corrected("my iphone .") == "My iPhone ."


def test_lowercased_text_stays_lowercased() -> None:
    spoken = ['" i know , " she said .', "- what ?", "1 . the dog ."]
    for lines in (["the dog and i speak english ."], spoken):
        corrector = SpellingCorrector(SpellingCounts.of(30 * lines))
        assert corrector.correct(["the", "dog", "and", "i", "."]) == ["the", "dog", "and", "i", "."]


def test_scores_follow_the_formula(corrector: SpellingCorrector) -> None:
    words = " ".join(20 * SENTENCES).lower().split()
    pairs = [line.lower().split() for line in 20 * SENTENCES]

    def log_prob(previous: str, word: str) -> float:
        both = sum(
            one == previous and other == word for line in pairs for one, other in pairwise(line)
        )
        unigram = words.count(word) / len(words)
        return math.log((both + 5 * unigram) / (words.count(previous) + 5))

    for previous, word in (("the", "people"), ("a", "people"), ("people", "receive")):
        assert corrector._log_prob(previous, word) == pytest.approx(log_prob(previous, word))
    assert corrector.costs("poeple") == {"people": 5}, "a swap is one edit"
    assert corrector.costs("xpeopla") == {"people": 13 + 4}
    assert corrector.costs("lettr") == {"letter": 5}
    assert corrector.costs("lettx") == {}, "two edits need six letters"


def test_counts_are_read_as_written(tmp_path: Path) -> None:
    counts = SpellingCounts.of(["The cat ☃", "the cat ☃"])
    for name in ("counts", "counts.gz"):
        counts.write(tmp_path / name)
        assert SpellingCounts.read(tmp_path / name) == counts
    lines = (tmp_path / "counts").read_text().splitlines()
    assert lines == [
        *("cat 2", "☃ 2", "The 1", "the 1"),
        *("<s> the 2", "cat ☃ 2", "the cat 2", "☃ </s> 2"),
    ]


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        *(("", "counts"), ("the cat 1\n", "counts"), ("the 1\na b c 2\n", "counts:2")),
        *((line, "counts:1") for line in ("the one\n", "the -1\n", "the 0\n", "7\n")),
    ],
)
def test_wrong_counts_are_named(text: str, culprit: str, tmp_path: Path) -> None:
    (tmp_path / "counts").write_text(text)
    with pytest.raises(DataError, match=culprit):
        SpellingCounts.read(tmp_path / "counts")
