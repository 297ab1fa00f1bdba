"""Spell checker of the grammar recipes."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Run
from tests.recipes.recipe import script

pytest.importorskip("symspellpy")
pytest.importorskip("lemminflect")
COMMON = ROOT / "examples/common"
SENTENCES = ["the people receive a letter", "we believe the people", "The receipt of a letter"]
"""Of 20 copies, all words are frequent."""


@pytest.fixture(scope="module")
def module() -> Any:
    return script(COMMON / "spell_check.py")


@pytest.fixture(scope="module")
def checker(module: Any) -> Any:
    return module.SpellChecker(module.Counts.of(20 * SENTENCES))


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
def test_misspelled_words_are_corrected(checker: Any, text: str, corrected: str) -> None:
    assert checker.correct(text.split()) == corrected.split()


def test_counts_of_text(module: Any) -> None:
    counts = module.Counts.of(["The cat", "the cat", "a Dog"])
    assert counts.words == {"the": 2, "cat": 2, "a": 1, "dog": 1}
    assert counts.pairs == {"<s> the": 2, "the cat": 2, "cat </s>": 2}, "unique pairs are left out"
    assert counts.suggested == []
    counts = module.Counts.of(20 * ["The the cat Dog"])
    assert counts.suggested == ["the", "cat"], "mostly lowercase"


def test_the_context_chooses_among_suggestions(module: Any) -> None:
    checker = module.SpellChecker(module.Counts.of(30 * ["my hand is cold", "the band plays on"]))
    assert checker.correct(["my", "xand", "is"])[1] == "hand"
    assert checker.correct(["the", "xand", "plays"])[1] == "band"


def test_scores_follow_the_formula(module: Any, checker: Any) -> None:
    counts = checker.counts
    total = sum(len(line.split()) for line in 20 * SENTENCES)

    def log_prob(left: str, word: str) -> float:
        unigram = counts.words[word] / total
        pair = counts.pairs.get(f"{left} {word}", 0)
        return math.log((pair + 5 * unigram) / (counts.words.get(left, 0) + 5))

    for left, word in (("the", "people"), ("a", "people"), ("people", "receive")):
        assert checker._log_prob(left, word) == pytest.approx(log_prob(left, word))
    assert checker.suggestions("poeple")["people"] == 5, "a swap is one edit"
    assert checker.suggestions("xpeopla")["people"] == 13 + 4
    assert "letter" not in checker.suggestions("ltter"[1:]), "two edits need six letters"


def test_the_script_counts_and_corrects(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in 20 * SENTENCES))
    program = (sys.executable, COMMON / "spell_check.py")
    run(*program, "count", tmp_path / "text", "-o", tmp_path / "counts.json.gz")
    done = run(*program, "correct", tmp_path / "counts.json.gz", text="we recieve a leter\n\n")
    assert done.stdout == "we receive a letter\n\n"
