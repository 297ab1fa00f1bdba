"""The rules of filters: lengths, identical sides, bytes and characters."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.filters.rules import (
    CleanFilter,
    EncodingFilter,
    Filter,
    IdenticalFilter,
    LineSizes,
    MaxLengthFilter,
)

LINES = st.text("ab |\t\u3000", max_size=30)


def stays(one: Filter[Any], *row: str) -> bool:
    [score] = one.score([row])
    return bool(one.accept(score))


def tokens(count: int) -> str:
    return " ".join(["w"] * count)


@pytest.mark.parametrize(("ratio", "kept"), [(1.4, True), (1.39, False)])
def test_clean_ratio_equals_that_of_moses(ratio: float, kept: bool) -> None:
    """63 / 45 equals 1.4 in floating point, but 45 * 1.4 is less than 63."""
    assert 63 > 45 * 1.4
    assert stays(CleanFilter(ratio=ratio), tokens(63), tokens(45)) is kept


def test_clean_limits_words_and_lines_of_one_side() -> None:
    assert stays(CleanFilter(), "a" * 1000)
    assert not stays(CleanFilter(), f"b {'a' * 1001}")
    assert stays(CleanFilter(max_word_length=3), "\u00fc\u6f22\U00020bb7 b", "c")
    assert not stays(CleanFilter(max_word_length=3), "\u00fc\u6f22\U00020bb7d", "c")
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
        ("a", "日本 " * 250 + "\u3000", True),
        ("a", "\U00020bb7" * 500, True),
        ("a" * 501, "", True),
    ],
)
def test_max_length_measures_each_side_in_its_unit(source: str, target: str, kept: bool) -> None:
    assert stays(MaxLengthFilter(), source, target) is kept
    characters = MaxLengthFilter(source=2, source_unit="characters")
    assert (stays(characters, "a b"), stays(characters, "a b c")) == (True, False)
    assert stays(MaxLengthFilter(source=0), tokens(10_000), "x"), "0 is no limit"


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
    assert stays(IdenticalFilter(**options), source, target) is kept


SPACES = [char for char in map(chr, range(sys.maxunicode + 1)) if char.isspace() and char != "\n"]
TEXT = st.text(
    st.sampled_from([*SPACES, *"aa\u00fc\u6f22\U0001f600\u0301\u200b\ufeff"]), max_size=9
)


@given(st.lists(TEXT, min_size=1, max_size=8), st.booleans())
def test_sizes_equal_those_of_split(lines: list[str], ends: bool) -> None:
    ends = ends or not lines[-1]  # a file cannot end with an empty line without newline
    sizes = LineSizes("\n".join(lines).encode() + b"\n" * ends)
    tokens = [line.split() for line in lines]
    assert sizes.tokens().tolist() == list(map(len, tokens))
    assert sizes.characters().tolist() == [sum(map(len, words)) for words in tokens]
    assert sizes.longest_token().tolist() == [max(map(len, words), default=0) for words in tokens]


@given(st.lists(st.text("ab\n \udcff\ud800\u3000\x85", max_size=9), min_size=1, max_size=5))
def test_lines_in_memory_may_contain_any_character(lines: list[str]) -> None:
    sizes = LineSizes.of_lines(lines)
    assert sizes.tokens().tolist() == [len(line.split()) for line in lines]
    assert sizes.characters().tolist() == [len("".join(line.split())) for line in lines]


REAL = [
    "Das Straßencafé öffnet für Übergäste: \u201eSehr schön!\u201c",
    "Das macht Spaß\u2026 \u201aGroß\u2018, sagte er \u2013 \u00bbviel Spaß\u00ab.",
    "\u00bbHA HÄ\u00ab, \u201eTSCHÜß\u201c und OPA\u00b4s RADLÄ\u2026",
    "LIBERTÉ\u00a0! ÉGALITÉ\u00a0: \u00ab\u00a0DÉJÀ VU\u00a0\u00bb, CAFÉ\u00ae\u2026",
    "Ça coûte 20\u00a0\u20ac à l\u2019âge d\u2019être mûr\u2026 \u00ab\u00a0naïf\u00a0\u00bb",
    "CHAPITRE V\u00a0: L\u2019ÂME, \u00abÉTÉ\u00bb \u2014 THÉÂTRE\u2122, VOILÀ\u00a0!",
    "HYVÄ\u2026 PÄIVÄÄ\u201d, sanoi hän: \u201dJÄÄ\u201d.",
    "Łódź, čeština, Türkçe \u0131ş\u0131k, Việt Nam",
    "日本語\u3000の文\u3001\u201c引用\u201d\u3002",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u03ba\u03cc\u03c3\u03bc\u03b5",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb \ufe0f",
    "\ufeffa\tb\u00adc\u2028d",
    "Là\u2026\u2026à\u2026\u2026",
    "a line from Windows\r",
    "a new emoji \U0001facd, or \u0378",
    "",
]
"""Quotes, dashes and no-break spaces after capitals, other scripts, and unassigned characters."""

FRENCH = "à la carte, être, été, noël, coût, ça"
EUROPEAN = "für Österreich Über Straße café voilà coût à información niño été Wałęsa nőt 日本"
TWICE = [
    *EUROPEAN.split(),
    *("don\u2019t", "\u201cquote", "10\u00a0%", "20 \u00b0C", "100 \u20ac"),
    *("\u0939\u093f\u0928", "\u043f\u0440\u0438\u0432\u0435\u0442", "\u03ba\u03b1\u03b9"),
    *("\U0001f600\U0001f600", FRENCH, f"{FRENCH} 一"),
]


def wrong(line: str, twice: bool = True) -> str:
    [score] = EncodingFilter(twice).score([(line,)])
    return score


def misread(text: str) -> str:
    """Decode as Windows-1252 like a browser: unassigned bytes are control characters."""
    raw = text.encode()
    return "".join(bytes([byte]).decode("cp1252", "replace") for byte in raw).replace(
        "\ufffd", "\x81"
    )


@pytest.mark.parametrize("line", REAL)
def test_correct_text_is_kept(line: str) -> None:
    assert wrong(line) == ""


@pytest.mark.parametrize("line", TWICE)
def test_mojibake_is_dropped(line: str) -> None:
    assert wrong(line) == wrong(misread(line), twice=False) == ""
    assert wrong(misread(line)), misread(line)
    assert wrong(line.encode().decode("latin-1"))
    assert wrong("so fÃ\u00bcr uns") == "fÃ\u00bcr for für"


@given(st.text("abcdefghäöüßéèêàç ", min_size=1))
def test_lowercase_text_is_dropped_only_if_it_is_mojibake(line: str) -> None:
    assert wrong(line) == ""
    assert bool(wrong(misread(line))) is not line.isascii()


@pytest.mark.parametrize(
    "bad", [*"\0\x1b\x85\r\x7f\ufffd\ue000\U000f0000\ufdd0\ufdef\uffff\U0010fffe"]
)
def test_bad_characters_are_dropped(bad: str) -> None:
    assert wrong(f"a{bad}b").endswith(f"character U+{ord(bad):04X}")
    assert wrong(f"a{bad}\r")


@pytest.mark.parametrize(
    ("raw", "byte"), [(b"caf\xe9", 0xE9), (b"\xc0\x80", 0x80), (b"\xed\xa0\x80", 0x80)]
)
def test_invalid_utf8_is_dropped(raw: bytes, byte: int) -> None:
    assert wrong(raw.decode("utf-8", "surrogateescape")) == f"not UTF-8: byte 0x{byte:02x}"
