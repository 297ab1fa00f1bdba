"""Confusion sets: words, spell checkers, candidates, and the file format."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.noise.confusion_sets import (
    BATCH_WORDS,
    Aspell,
    ConfusionFinder,
    build_confusion_sets,
    build_confusion_sets_file,
    format_sets,
    known_words,
    read_confusion_sets,
    word_batches,
)
from fairseq_ssl.text.spelling import SymSpell
from tests.conftest import ROOT


class Parrot:
    """Spell checker with the same suggestions for all words."""

    def version(self) -> str:
        return "parrot"

    def suggestions(self, words: Sequence[str]) -> Iterator[list[str]]:
        for word in words:
            yield ["their", "there", "their", "Lon don", word, "then", "oov"]


PARROT: Any = Parrot()


def test_words_of_two_letters_or_more_get_a_set() -> None:
    counts = {"the": 5, "a": 9, "I": 9, "don't": 3, "x2": 9, "--": 9, "日本": 3, "rare": 2, "a.": 4}
    known = known_words({**counts, "thei\0": 9}, 3)
    assert known == {"I": 9, "a": 9, "a.": 4, "don't": 3, "the": 5, "日本": 3}
    assert word_batches(known) == [["don't", "the", "日本"]]
    many = ["".join(letters) for letters in product("abcdefghijkl", repeat=3)]
    batches = word_batches(known_words(dict.fromkeys(many, 1)))
    assert [word for batch in batches for word in batch] == many
    assert max(map(len, batches)) == BATCH_WORDS


def test_suggestions_are_filtered() -> None:
    words = ["then", "oov"]
    among = frozenset(["their", "there", "then"])
    assert ConfusionFinder(PARROT, among)(words) == [
        ("then", ["their", "there"]),
        ("oov", ["their", "there", "then"]),
    ]
    assert ConfusionFinder(PARROT, frozenset(["then"]))(words) == [("oov", ["then"])]


WORD = st.text(min_size=1).filter(lambda word: word.split() == [word] and "\0" not in word)


@given(
    sets=st.dictionaries(WORD, st.lists(WORD, min_size=1, unique=True)).map(
        lambda sets: {word: [o for o in others if o != word] for word, others in sets.items()}
    )
)
def test_write_and_read_round_trip(
    sets: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = {"x": ["y"], **{word: others for word, others in sets.items() if others}}
    path = tmp_path_factory.mktemp("sets") / "sets.tsv"
    path.write_text("".join(format_sets(kept)), "utf-8", newline="\n")
    assert read_confusion_sets(path) == {word: tuple(others) for word, others in kept.items()}


@pytest.mark.parametrize(
    "line",
    [
        *("a b c", "a\tb\tc", "", "\tb", "a b\tc", "a\t", "a\tb  c", "a\tb\r", "a\tb\0 c"),
        *("a\tb a", "their\tb"),
    ],
)
def test_wrong_lines_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "sets.tsv"
    path.write_text(f"their\tthere\n{line}\nx\ty\n", newline="")
    with pytest.raises(DataError, match=r"sets\.tsv:2 "):
        read_confusion_sets(path)


def test_confusion_sets_of_counts_and_of_files_are_equal(tmp_path: Path) -> None:
    text = "their there theirs\n\nthe theirs , 3rd a\nLondon\n"
    (tmp_path / "text").write_text(text)
    output = tmp_path / "sets"
    signature = build_confusion_sets_file([tmp_path / "text"], output)
    sets = build_confusion_sets(Counter(text.split()))
    assert list(sets) == ["the", "their", "theirs", "there"]
    assert read_confusion_sets(output) == sets
    numbers = {"words": 5, "sets": 4, "confusions": 10}
    assert signature.parameters.items() >= numbers.items()
    with pytest.raises(UsageError, match="Set `overwrite`"):
        build_confusion_sets_file([tmp_path / "text"], output)
    assert build_confusion_sets({"then": 1}, checker=PARROT) == {}


FAKE = ROOT / "tests/unit/noise/fake_aspell.py"


VOCABULARY = st.dictionaries(st.text("abcä", min_size=1, max_size=11), st.integers(0, 5))


@given(counts=VOCABULARY)
def test_symspell_finds_all_close_words_in_order(counts: dict[str, int]) -> None:
    counts |= {word[::-1] + "aa": 2 for word in counts}
    checker = SymSpell(counts)
    for word, found in zip(counts, checker.suggestions(list(counts)), strict=True):
        near = [(OSA.distance(word, other), -max(1, counts[other]), other) for other in counts]
        assert found == [other for far, _, other in sorted(near) if 0 < far <= 2]


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
