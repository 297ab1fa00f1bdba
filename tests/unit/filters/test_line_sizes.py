"""Sizes of lines from arrays of bytes equal those of `str.split`."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.filters.rules import LineSizes

SPACES = [char for char in map(chr, range(sys.maxunicode + 1)) if char.isspace() and char != "\n"]
TEXT = st.text(
    st.sampled_from([*SPACES, *"aa\u00fc\u6f22\U0001f600\u0301\u200b\ufeff"]), max_size=9
)


@given(st.lists(TEXT, min_size=1, max_size=8), st.booleans(), st.integers(1, 5))
def test_sizes_equal_those_of_split(lines: list[str], ends: bool, size: int) -> None:
    ends = ends or not lines[-1]  # a file cannot end with an empty line without newline
    sizes = LineSizes("\n".join(lines).encode() + b"\n" * ends)
    tokens = [line.split() for line in lines]
    assert sizes.tokens().tolist() == list(map(len, tokens))
    assert sizes.characters().tolist() == [sum(map(len, words)) for words in tokens]
    assert sizes.has_longer_token(size).tolist() == [
        any(len(word.encode()) > size for word in words) for words in tokens
    ]


@pytest.mark.parametrize("space", SPACES)
def test_each_whitespace_separates_tokens(space: str) -> None:
    assert LineSizes(f"\u00fc{space}b".encode()).tokens().tolist() == [2]
