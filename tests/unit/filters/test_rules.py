"""Examples on both sides of the limits of each rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.filters.rules import CleanFilter, Filter, IdenticalFilter, MaxLengthFilter

LINES = st.text("ab |\t\u3000", max_size=30)


def stays(one: Filter[Any], *row: str) -> bool:
    [score] = one.score([row])
    return one.accept(score)


def tokens(count: int) -> str:
    return " ".join(["w"] * count)


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [(250, 250, True), (251, 250, False), (250, 251, False), (0, 0, False)],
)
def test_clean_limits_are_inclusive(source: int, target: int, kept: bool) -> None:
    assert stays(CleanFilter(), tokens(source), tokens(target)) is kept
    assert stays(CleanFilter(), "a b c", tokens(9))
    assert not stays(CleanFilter(), "a b c", tokens(10))


def test_clean_splits_at_any_whitespace() -> None:
    four = "  a\tb\u3000c \u00a0 d "
    assert CleanFilter().score([(four, "e")])[0].tokens == (4, 1)
    assert not stays(CleanFilter(), four, "e")
    assert stays(CleanFilter(ratio=4), four, "e")
    assert not stays(CleanFilter(), " \t ", "e")


@pytest.mark.parametrize(("ratio", "kept"), [(1.4, True), (1.39, False)])
def test_clean_ratio_equals_that_of_moses(ratio: float, kept: bool) -> None:
    """63 / 45 equals 1.4 in floating point, but 45 * 1.4 is less than 63."""
    assert 63 > 45 * 1.4
    assert stays(CleanFilter(ratio=ratio), tokens(63), tokens(45)) is kept


def test_clean_limits_words_and_lines_of_one_side() -> None:
    assert stays(CleanFilter(), "a" * 1000)
    assert not stays(CleanFilter(), f"b {'a' * 1001}")
    assert not stays(CleanFilter(min=2), "one")
    assert not stays(CleanFilter(max=2), "one two three")


@given(LINES, LINES, st.integers(1, 4), st.integers(4, 9), st.sampled_from([1.0, 1.5, 2.0, 3.0]))
def test_clean_is_symmetric(source: str, target: str, least: int, most: int, ratio: float) -> None:
    rule = CleanFilter(least, most, ratio)
    lengths = len(source.split()), len(target.split())
    expected = all(least <= n <= most for n in lengths) and not (
        lengths[0] / lengths[1] > ratio or lengths[1] / lengths[0] > ratio
    )
    assert stays(rule, source, target) is stays(rule, target, source) is expected


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (tokens(500), "日" * 500, True),
        (tokens(501), "日", False),
        ("a", "日" * 501, False),
        ("a", "日本 " * 250, True),
        ("a", "日本 " * 250 + "\u3000", True),
        ("a", "\U00020bb7" * 500, True),
        ("a" * 501, "", True),
    ],
)
def test_max_length_measures_each_side_in_its_unit(source: str, target: str, kept: bool) -> None:
    assert stays(MaxLengthFilter(), source, target) is kept


def test_max_length_supports_one_side_and_no_limit() -> None:
    assert not stays(MaxLengthFilter(source=2, source_unit="characters"), "a b c")
    assert stays(MaxLengthFilter(source=3, source_unit="characters"), "a b c")
    assert stays(MaxLengthFilter(source=0), tokens(10_000), "x")
    assert not stays(MaxLengthFilter(source=0, target=2, target_unit="tokens"), "a", "a b c")


@pytest.mark.parametrize(
    ("options", "source", "target", "kept"),
    [
        ({}, "a b", "a b", False),
        ({}, "a b", "a B", True),
        ({}, "a b", "a  b", True),
        ({"ignore_case": True}, "a b", "A B", False),
        ({"ignore_case": True}, "straße", "STRASSE", False),
        ({"ignore_case": True}, "a b", "A  B", True),
        ({"ignore_spaces": True}, "a b", " ab\t", False),
        ({"ignore_spaces": True, "ignore_case": True}, "a b", "AB", False),
        ({}, "", "", False),
    ],
)
def test_identical(options: dict[str, bool], source: str, target: str, kept: bool) -> None:
    assert stays(IdenticalFilter(2, **options), source, target) is kept
