"""SymSpell compared with all pairs of words, Aspell tested with an imitation."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, MissingPackageError
from fairseq_ssl.noise.confusion_sets import Aspell
from fairseq_ssl.text.spelling import SymSpell
from tests.conftest import ROOT

FAKE = ROOT / "tests/unit/noise/fake_aspell.py"


def distance(one: str, other: str) -> int:
    """Return the edit distance with transpositions by its recursive definition."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, letter_of_other in enumerate(other, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != letter_of_other))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


VOCABULARY = st.dictionaries(st.text("abcä", min_size=1, max_size=11), st.integers(0, 5))


@given(counts=VOCABULARY)
def test_symspell_finds_all_close_words_in_order(counts: dict[str, int]) -> None:
    counts |= {word[::-1] + "aa": 2 for word in counts}
    checker = SymSpell(counts)
    for word, found in zip(counts, checker.suggestions(list(counts)), strict=True):
        near = [(distance(word, other), -max(1, counts[other]), other) for other in counts]
        assert found == [other for far, _, other in sorted(near) if 0 < far <= 2]


def test_symspell_is_pickled_without_its_index() -> None:
    checker = SymSpell({"then": 3, "than": 2, "them": 9})
    before = list(checker.suggestions(["then", "elsewhere"]))
    assert before == [["them", "than"], []]
    sent = pickle.dumps(checker)
    assert b"_index" not in sent
    assert list(pickle.loads(sent).suggestions(["then", "elsewhere"])) == before


@pytest.fixture
def fake_aspell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the imitation of aspell first on the path."""
    program = tmp_path / "bin" / "aspell"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")


@pytest.mark.usefixtures("fake_aspell")
def test_aspell_suggests_for_correct_words_and_keeps_their_case() -> None:
    expected = {
        "their": ["their", "there", "theirs", "they're"],
        "Their": ["Their", "There", "Theirs", "They're"],
        "THEIR": ["THEIR", "THERE", "THEIRS", "THEY'RE"],
        "London": ["London", "Landon", "Lon don"],
        "london": ["London", "Landon", "Lon don"],
        "NASA": ["NASA", "NASAL"],
        "thier": ["their", "there"],
        "naïve": ["naive", "native"],
        "well-known": [],  # is two words to aspell
        "qqq": [],
        "--": [],
        "&their": [],
    }
    assert dict(zip(expected, Aspell().suggestions(list(expected)), strict=True)) == expected
    assert list(Aspell().suggestions([])) == []


@pytest.mark.usefixtures("fake_aspell")
def test_aspell_reports_its_version_and_errors() -> None:
    assert Aspell().version() == "aspell 0.60.0 en"
    with pytest.raises(DataError, match="aspell failed: Error: No word lists"):
        Aspell("xx").version()


def test_missing_aspell_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError, match="apt install aspell aspell-de"):
        Aspell("de").version()
