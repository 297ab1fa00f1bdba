"""Joining, splitting and reordering of sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.text.parallel_folder import (
    first_to_end,
    interleave,
    join_sentences,
    split_sentences,
)

SEPARATOR = "<sep>"


@pytest.mark.parametrize(
    ("sentences", "joined"),
    [
        (["a b", "c"], "a b <sep> c"),
        (["a"], "a"),
        (["a  b", " c\r"], "a  b <sep> c"),
        (["", "b", "", "", "e", ""], "<sep> b <sep> <sep> <sep> e <sep>"),
        (["", " "], "<sep>"),
    ],
)
def test_join(sentences: list[str], joined: str) -> None:
    assert join_sentences(sentences, SEPARATOR) == joined
    assert split_sentences(joined, SEPARATOR) == [sentence.strip() for sentence in sentences]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("a <sep>  b\t<sep>\u3000c", ["a", "b", "c"]),
        ("a<sep> <sep>b <sep><sep>", ["a<sep> <sep>b <sep><sep>"]),
        (" a <sep>", ["a", ""]),
        ("", [""]),
    ],
)
def test_separator_within_a_token_does_not_split(text: str, sentences: list[str]) -> None:
    assert split_sentences(text, SEPARATOR) == sentences


def test_separator_is_not_a_regular_expression() -> None:
    assert split_sentences("a . b .. c . d", ".") == ["a", "b .. c", "d"]
    assert split_sentences("a (| b", "(|") == ["a", "b"]


words = st.text(st.sampled_from("ab<sep>\u00e9\u2581"), min_size=1).filter(SEPARATOR.__ne__)
lines = st.lists(words).map(" ".join)


@given(st.lists(lines, min_size=1))
def test_split_inverts_join(sentences: list[str]) -> None:
    joined = join_sentences(sentences, SEPARATOR)
    assert split_sentences(joined, SEPARATOR) == sentences
    assert joined.split().count(SEPARATOR) == len(sentences) - 1
    assert "  " not in joined
    assert joined == joined.strip()


def test_first_to_end() -> None:
    assert first_to_end(["a", "b", "c"]) == ["b", "c", "a"]
    assert first_to_end(["a"]) == ["a"]


@given(st.lists(st.integers(), min_size=1, max_size=6))
def test_n_rotations_are_the_identity(items: list[int]) -> None:
    rotated = items
    for _ in items:
        rotated = first_to_end(rotated)
    assert rotated == items


def test_interleave() -> None:
    assert interleave([1, 2, 3], 0) == [1, 0, 2, 0, 3]
    assert interleave([1], 0) == [1]
