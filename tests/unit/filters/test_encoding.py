"""Bad bytes and characters are dropped, and correct text of many languages is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.filters.rules import EncodingFilter

REAL = [
    "Das Straßencafé öffnet für Übergäste: \u201eSehr schön!\u201c",
    "Das macht Spaß\u2026 \u201aGroß\u2018, sagte er \u2013 \u00bbviel Spaß\u00ab.",
    "\u00bbHA HÄ\u00ab, \u201eTSCHÜß\u201c und OPA\u00b4s RADLÄ\u2026",
    "LIBERTÉ\u00a0! ÉGALITÉ\u00a0: \u00ab\u00a0DÉJÀ VU\u00a0\u00bb, CAFÉ\u00ae\u2026",
    "Ça coûte 20\u00a0\u20ac à l\u2019âge d\u2019être mûr\u2026 \u00ab\u00a0naïf\u00a0\u00bb",
    "CHAPITRE V\u00a0: L\u2019ÂME, \u00abÉTÉ\u00bb \u2014 THÉÂTRE\u2122, VOILÀ\u00a0!",
    "AMANHÃ\u2026 não, \u201cIRMÃ\u201d e MAÇÃ\u00ae!",
    "TOÇÃO é \u201cSÃ\u201d \u2013 NÃO\u2026",
    "HYVÄ\u2026 PÄIVÄÄ\u201d, sanoi hän: \u201dJÄÄ\u201d.",
    "Å\u00a0 være \u2013 byen Å\u2026 12 Å\u00b2, 3 Å\u00b3 og 5 Å",
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
WORDS = "für Österreich Über Straße café voilà coût à información niño été Wałęsa nőt tėvas 日本"
TWICE = [
    *WORDS.split(),
    *("don\u2019t", "\u201cquote", "10\u00a0%", "20 \u00b0C", "100 \u20ac", "Acme\u2122"),
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
    assert wrong(line) == ""
    assert wrong(misread(line)), misread(line)
    assert wrong(line.encode().decode("latin-1"))


def test_mojibake_is_shown_and_can_be_kept() -> None:
    assert wrong("fÃ\u00bcr") == "Ã\u00bc for ü"
    assert wrong("fÃ\u00bcr", twice=False) == ""
    assert wrong("mixed: für, 一 and fÃ\u00bcr")


@given(st.text("abcdefghäöüßéèêàçłź ", min_size=1))
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


def test_both_sides_are_checked() -> None:
    one = EncodingFilter()
    scores = one.score([("a", "b"), ("a\0", "b"), ("a", "b\0")])
    assert [one.accept(score) for score in scores] == [True, False, False]
