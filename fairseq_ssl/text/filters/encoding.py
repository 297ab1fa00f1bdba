"""Bytes and characters that no text should have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairseq_ssl.text.filters.filter import Row
from fairseq_ssl.text.specs import option

BAD = {
    "Cc": "control character",
    "Co": "private use character",
    "Cn": "unassigned character",
}
"""By the categories of Unicode."""
AFTER_WORDS = "\u2019\u201d\u201c\u2018\u2026\u00bb\u00ab\u203a\u2039\u2013\u2014\u00a0\u2022" + (
    "\u2122\u00ae\u00a9\u00b4\u2020\u2021\u00b2\u00b3\u00b9\u00b7\u00b1"
)
"""What may well come after a capital letter at the end of a word.

Quotes, single and double, curly and angular; dots, dashes, the no-break space and the bullet;
trade marks, the acute accent for an apostrophe, daggers, exponents, the middle dot, plus-minus.
"""


@dataclass(frozen=True)
class EncodingFilter:
    """Drops bytes that are no UTF-8, control characters, and what a wrong decoding has left.

    That is: NUL and other control characters but the tab, and but a carriage return at the end
    of a line; U+FFFD; characters for private use and those that this Python's Unicode does not
    have; UTF-8 that was read as Latin-1 or Windows-1252, such as Ã¼ for ü.
    """

    twice: bool = option(True, "also UTF-8 that was read as Latin-1 or Windows-1252")

    def score(self, rows: Sequence[Row]) -> list[str]:
        """Return what is wrong with each row, which is empty for nothing."""
        return [next(filter(None, map(self._wrong, row)), "") for row in rows]

    def accept(self, score: str) -> bool:
        """Let those stay with which nothing is wrong."""
        return not score

    def _wrong(self, line: str) -> str:
        line = line.removesuffix("\r")
        if not line.isprintable():
            found = _bad_character(line)
            if found:
                return found
        if "\ufffd" in line:
            return "replacement character U+FFFD"
        if self.twice and not line.isascii():
            return _decoded_twice(line)
        return ""


def _bad_character(line: str) -> str:
    for character in sorted(set(line)):
        if character.isprintable() or character == "\t":
            continue
        category = unicodedata.category(character)
        if category == "Cs":
            return f"not UTF-8: byte 0x{ord(character) - 0xDC00:02x}"
        if category in BAD:
            return f"{BAD[category]} U+{ord(character):04X}"
    return ""


def _decoded_twice(line: str) -> str:
    found = TWICE.search(line)
    if found is None:
        return ""
    wrong = found[0]
    right = wrong.encode("cp1252").decode("utf-8", "replace")
    return f"{wrong} for {right}" if len(right) < len(wrong) else ""


def _images(numbers: Iterable[int]) -> str:
    """Return what bytes are in Windows-1252; the five that are nothing there are controls."""
    return bytes(numbers).decode("cp1252", "ignore")


def _class(characters: str) -> str:
    return f"[{re.escape(characters)}]"


def _pattern() -> re.Pattern[str]:
    """Make what finds characters whose bytes in Windows-1252 are a character in UTF-8.

    Of these only what hardly any text has by itself: accented Latin letters, unless they would
    be a capital at the end of a word and a sign that may follow it; the quotes and dashes that
    begin with two certain bytes; of all others, two in a row.
    """
    after = _images(range(0x80, 0xC0))
    inner = _class(after)
    certain = _class("".join(sorted(set(after) - set(AFTER_WORDS))))
    doubtful = _class("".join(sorted(set(after) & set(AFTER_WORDS))))
    latin = [
        f"{_class(_images(range(0xC2, 0xC6)))}{certain}",
        f"(?<![^\\W\\d_a-z\u00df-\u00ff]){_class(_images((0xC2, 0xC3)))}{doubtful}",
        f"(?<=[a-z0-9\u00df-\u00ff]){_class(_images((0xC4, 0xC5)))}{doubtful}",
    ]
    signs = f"\u00e2{_class(_images((0x80, 0x82, 0x84)))}{inner}"
    two = f"{_class(_images(range(0xC2, 0xE0)))}{inner}"
    three = f"{_class(_images(range(0xE0, 0xF0)))}{inner}{{2}}"
    four = f"{_class(_images(range(0xF0, 0xF5)))}{inner}{{3}}"
    return re.compile("|".join([*latin, signs, f"(?:{two}|{three}|{four}){{2,}}"]))


TWICE = _pattern()
