"""Filters by rules on each pair: length, ratio, identical sides, encoding."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.text.specs import option

Row = tuple[str, ...]
"""A line of each side: one of monolingual text, two of a pair.

A byte that is not UTF-8 stands in it as a lone surrogate.
"""

RowScore = TypeVar("RowScore")


class Filter(Protocol[RowScore]):
    """A rule whose verdict on a row depends on that row alone."""

    def score(self, rows: Sequence[Row]) -> list[RowScore]:
        """Return what the rule looks at, for each row of a block."""

    def accept(self, score: RowScore) -> bool:
        """Tell whether a row with this score stays."""


class LineLengths(NamedTuple):
    """What is measured of a row."""

    tokens: tuple[int, ...]
    """Of each side."""
    longest_word: int
    """Characters of the longest token of all."""


@dataclass(frozen=True)
class CleanFilter:
    """Drops what is short, long, or of unequal sides, by the rule of Moses' clean-corpus-n.

    Tokens stand between whitespace. All limits may be met: a side of `max` tokens stays, and so
    does a pair whose longer side has exactly `ratio` times the tokens of the shorter.
    """

    min: int = option(1, "tokens that each side has at least; 1 or more")
    max: int = option(250, "tokens that each side has at most")
    ratio: float = option(3.0, "the tokens of one side are at most so many times the other's")
    longest_word: int = option(1000, "characters that a token has at most")

    def __post_init__(self) -> None:
        if not (1 <= self.min <= self.max and self.ratio >= 1 and self.longest_word >= 1):
            raise UsageError(
                f"The filter clean has min={self.min}, max={self.max}, ratio={self.ratio} and "
                f"longest-word={self.longest_word}; expected 1 or more, and max no less than min."
            )

    def score(self, rows: Sequence[Row]) -> list[LineLengths]:
        """Measure the rows."""
        return [_lengths([line.split() for line in row]) for row in rows]

    def accept(self, score: LineLengths) -> bool:
        """Tell whether no limit is passed."""
        fewest, most = min(score.tokens), max(score.tokens)
        if fewest < self.min or most > self.max or score.longest_word > self.longest_word:
            return False
        return most / fewest <= self.ratio


def _lengths(sides: list[list[str]]) -> LineLengths:
    longest = max(max(map(len, tokens), default=0) for tokens in sides)
    return LineLengths(tuple(map(len, sides)), longest)


UNITS = ("tokens", "characters")


@dataclass(frozen=True)
class LongestFilter:
    """Drops what is too long on one side, such as English in tokens, Japanese in characters.

    A side as long as its limit stays. Characters are code points, and whitespace is none, so
    that cutting a Japanese sentence into words does not make it longer.
    """

    source: int = option(500, "what the source has at most; 0: no limit")
    source_unit: str = option("tokens", "tokens or characters without spaces")
    target: int = option(500, "what the target has at most; 0: no limit")
    target_unit: str = option("characters", "tokens or characters without spaces")

    def __post_init__(self) -> None:
        for unit in (self.source_unit, self.target_unit):
            if unit not in UNITS:
                raise UsageError(
                    f"The filter longest has the unit {unit!r}.{nearest(unit, UNITS)} Units: "
                    f"{', '.join(UNITS)}."
                )
        if min(self.source, self.target) < 0:
            raise UsageError(
                f"The filter longest has source={self.source} and target={self.target}; expected "
                "0 or more."
            )

    def score(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        """Measure each side in its unit."""
        units = (self.source_unit, self.target_unit)
        return [
            tuple(_length(line, unit) for line, unit in zip(row, units, strict=False))
            for row in rows
        ]

    def accept(self, score: tuple[int, ...]) -> bool:
        """Tell whether no side is over its limit."""
        return all(
            length <= limit or limit == 0
            for length, limit in zip(score, (self.source, self.target), strict=False)
        )


def _length(line: str, unit: str) -> int:
    tokens = line.split()
    return len(tokens) if unit == "tokens" else sum(map(len, tokens))


@dataclass(frozen=True)
class IdenticalFilter:
    """Drops pairs whose two sides are the same."""

    sides: int
    ignore_case: bool = option(False, "also those that differ in capitals only")
    ignore_spaces: bool = option(False, "also those that differ in whitespace only")

    def __post_init__(self) -> None:
        if self.sides < 2:
            raise UsageError("The filter identical compares two sides; give a SOURCE and a TARGET.")

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Tell of each row whether its sides are the same."""
        return [self._folded(row[0]) == self._folded(row[1]) for row in rows]

    def accept(self, score: bool) -> bool:
        """Let those stay whose sides differ."""
        return not score

    def _folded(self, line: str) -> str:
        if self.ignore_case:
            line = line.casefold()
        return "".join(line.split()) if self.ignore_spaces else line


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
