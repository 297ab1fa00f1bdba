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
    ("text", "separator", "sentences"),
    [
        ("a <sep>  b\t<sep>\u3000c", SEPARATOR, ["a", "b", "c"]),
        ("a<sep> <sep>b <sep><sep>", SEPARATOR, ["a<sep> <sep>b <sep><sep>"]),
        (" a <sep>", SEPARATOR, ["a", ""]),
        ("", SEPARATOR, [""]),
        ("a . b .. c . d", ".", ["a", "b .. c", "d"]),
        ("a (| b", "(|", ["a", "b"]),
    ],
)
def test_separator_within_a_token_does_not_split(
    text: str, separator: str, sentences: list[str]
) -> None:
    assert split_sentences(text, separator) == sentences


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


def test_interleave() -> None:
    assert interleave([1, 2, 3], 0) == [1, 0, 2, 0, 3]
    assert interleave([1], 0) == [1]
