"""Parsing of integers."""

from __future__ import annotations

import pytest

from fairseq_ssl.text.specs import parse_integer, parse_integers


@pytest.mark.parametrize("word", ["", "-1", "1.0", "x", "²", "٣", "1_0", "9" * 16, "9" * 5000])
def test_invalid_integers(word: str) -> None:
    assert parse_integer(word) is None


def test_valid_integers() -> None:
    assert parse_integer(" 012 ") == 12
    assert parse_integer("9" * 15) == 10**15 - 1
    assert parse_integers("1, 2,4") == (1, 2, 4)
    assert parse_integers("1,0", least=1) is None
    assert parse_integers("1,,2") is None
