"""Numbers in files and flags."""

from __future__ import annotations

import pytest

from fairseq_ssl.text.numbers import whole_number, whole_numbers


@pytest.mark.parametrize("word", ["", "-1", "1.0", "x", "²", "٣", "1_0", "9" * 16, "9" * 5000])
def test_what_is_no_whole_number(word: str) -> None:
    assert whole_number(word) is None


def test_whole_numbers() -> None:
    assert whole_number(" 012 ") == 12
    assert whole_number("9" * 15) == 10**15 - 1
    assert whole_numbers("1, 2,4") == (1, 2, 4)
    assert whole_numbers("1,0", least=1) is None
    assert whole_numbers("1,,2") is None
