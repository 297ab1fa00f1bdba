"""Filters by rules on each pair: length, ratio, identical sides, encoding, language."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.text.specs import option

Row = tuple[str, ...]
"""The lines of one row: one line of monolingual text, or the two lines of a pair.

A byte that is not UTF-8 is a lone surrogate.
"""

RowScore = TypeVar("RowScore")


class Filter(ABC, Generic[RowScore]):
    """Keeps or drops each row by a score, which depends on that row only.

    Subclass it for your own filters. Name the class as ``package.module:Class``, or pass an
    instance. A dataclass can declare options with `filters.option`; the field ``sides``, if there
    is one, is set to the number of files.

    >>> class Question(Filter):
    ...     "Drops pairs of which one side only is a question."
    ...
    ...     def score(self, rows):
    ...         return [len({line.endswith("?") for line in row}) for row in rows]
    ...
    ...     def accept(self, score):
    ...         return score == 1
    >>> from fairseq_ssl.filters import filter_pairs
    >>> list(filter_pairs([("Why ?", "Warum ?"), ("Why ?", "Darum .")], [Question()]))
    [('Why ?', 'Warum ?')]
    """

    @abstractmethod
    def score(self, rows: Sequence[Row]) -> list[RowScore]:
        """Return a score for each row: plain values, which are shown beside dropped rows."""

    @abstractmethod
    def accept(self, score: RowScore) -> bool:
        """Return True to keep a row with this score."""


class LineLengths(NamedTuple):
    """Lengths in a row."""

    tokens: tuple[int, ...]
    """Tokens of each side."""
    max_word_length: int
    """Characters of the longest token of all sides."""


@dataclass(frozen=True)
class CleanFilter(Filter[LineLengths]):
    """Drops short and long lines, and pairs of unequal length, as Moses' clean-corpus-n does.

    Tokens are separated by whitespace. Limits are inclusive: a side of `max` tokens is kept, and
    so is a pair whose longer side has exactly `ratio` times the tokens of the shorter side.
    """

    min: int = option(1, "min tokens of each side, 1 or more")
    max: int = option(250, "max tokens of each side")
    ratio: float = option(3.0, "max tokens of one side for each token of the other side")
    max_word_length: int = option(1000, "max characters of a token")

    def __post_init__(self) -> None:
        if not (1 <= self.min <= self.max and self.ratio >= 1 and self.max_word_length >= 1):
            raise UsageError(
                f"The filter clean has min={self.min}, max={self.max}, ratio={self.ratio} and "
                f"max-word-length={self.max_word_length}. Expected 1 or more, and max no less than "
                "min."
            )

    def score(self, rows: Sequence[Row]) -> list[LineLengths]:
        """Return the lengths in each row."""
        return [_lengths([line.split() for line in row]) for row in rows]

    def accept(self, score: LineLengths) -> bool:
        """Return True if all lengths are within the limits."""
        shorter, longer = min(score.tokens), max(score.tokens)
        if shorter < self.min or longer > self.max or score.max_word_length > self.max_word_length:
            return False
        return longer / shorter <= self.ratio


def _lengths(sides: list[list[str]]) -> LineLengths:
    longest = max(max(map(len, tokens), default=0) for tokens in sides)
    return LineLengths(tuple(map(len, sides)), longest)


UNITS = ("tokens", "characters")


@dataclass(frozen=True)
class MaxLengthFilter(Filter[tuple[int, ...]]):
    """Drops rows too long on one side, in tokens (such as English) or characters (Japanese).

    Limits are inclusive. Characters are code points without whitespace, so that word segmentation
    does not make a Japanese sentence longer.
    """

    source: int = option(500, "max length of the source; 0: no limit")
    source_unit: str = option("tokens", "tokens, or characters without spaces")
    target: int = option(500, "max length of the target; 0: no limit")
    target_unit: str = option("characters", "tokens, or characters without spaces")

    def __post_init__(self) -> None:
        for unit in (self.source_unit, self.target_unit):
            if unit not in UNITS:
                raise UsageError(
                    f"The filter max-length has the unit {unit!r}.{nearest(unit, UNITS)} Units: "
                    f"{', '.join(UNITS)}."
                )
        if min(self.source, self.target) < 0:
            raise UsageError(
                f"The filter max-length has source={self.source} and target={self.target}. "
                "Expected 0 or more."
            )

    def score(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        """Return the length of each side in its unit."""
        units = (self.source_unit, self.target_unit)
        return [
            tuple(_length(line, unit) for line, unit in zip(row, units, strict=False))
            for row in rows
        ]

    def accept(self, score: tuple[int, ...]) -> bool:
        """Return True if no side is longer than its limit."""
        return all(
            length <= limit or limit == 0
            for length, limit in zip(score, (self.source, self.target), strict=False)
        )


def _length(line: str, unit: str) -> int:
    tokens = line.split()
    return len(tokens) if unit == "tokens" else sum(map(len, tokens))


@dataclass(frozen=True)
class IdenticalFilter(Filter[bool]):
    """Drops pairs with identical sides."""

    sides: int
    ignore_case: bool = option(False, "also drop pairs that differ in case only")
    ignore_spaces: bool = option(False, "also drop pairs that differ in whitespace only")

    def __post_init__(self) -> None:
        if self.sides < 2:
            raise UsageError("The filter identical compares two sides. Pass a source and a target.")

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Return for each row whether its sides are identical."""
        return [self._normalized(row[0]) == self._normalized(row[1]) for row in rows]

    def accept(self, score: bool) -> bool:
        """Return True if the sides differ."""
        return not score

    def _normalized(self, line: str) -> str:
        if self.ignore_case:
            line = line.casefold()
        return "".join(line.split()) if self.ignore_spaces else line


BAD_CATEGORIES = {
    "Cc": "control character",
    "Co": "private use character",
    "Cn": "unassigned character",
}
"""Names of Unicode categories."""
AFTER_WORDS = "\u2019\u201d\u201c\u2018\u2026\u00bb\u00ab\u203a\u2039\u2013\u2014\u00a0\u2022" + (
    "\u2122\u00ae\u00a9\u00b4\u2020\u2021\u00b2\u00b3\u00b9\u00b7\u00b1"
)
"""Characters that can follow a capital letter at the end of a word.

Quotes, single and double, curly and angular; dots, dashes, the no-break space and the bullet;
trade marks, the acute accent for an apostrophe, daggers, exponents, the middle dot, plus-minus.
"""


@dataclass(frozen=True)
class EncodingFilter(Filter[str]):
    """Drops bytes that are not UTF-8, control characters, and traces of a wrong decoding.

    Control characters include NUL, but not the tab, nor a carriage return at the end of a line.
    Dropped too: U+FFFD, private use characters, characters that this Python's version of Unicode
    does not have, and UTF-8 that was decoded as Latin-1 or Windows-1252, such as Ã¼ for ü.
    """

    twice: bool = option(True, "also drop UTF-8 that was decoded as Latin-1 or Windows-1252")

    def score(self, rows: Sequence[Row]) -> list[str]:
        """Return what is wrong with each row, or an empty string."""
        return [next(filter(None, map(self._wrong, row)), "") for row in rows]

    def accept(self, score: str) -> bool:
        """Return True if nothing is wrong."""
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
        if category in BAD_CATEGORIES:
            return f"{BAD_CATEGORIES[category]} U+{ord(character):04X}"
    return ""


def _decoded_twice(line: str) -> str:
    found = TWICE.search(line)
    if found is None:
        return ""
    wrong = found[0]
    right = wrong.encode("cp1252").decode("utf-8", "replace")
    return f"{wrong} for {right}" if len(right) < len(wrong) else ""


def _images(numbers: Iterable[int]) -> str:
    """Decode bytes as Windows-1252, without the five bytes that it does not define."""
    return bytes(numbers).decode("cp1252", "ignore")


def _class(characters: str) -> str:
    return f"[{re.escape(characters)}]"


def _pattern() -> re.Pattern[str]:
    """Return a pattern of characters whose Windows-1252 bytes are a UTF-8 character.

    It matches only sequences that are rare in correct text: accented Latin letters, unless they
    can be a capital at the end of a word with a sign after it; quotes and dashes that begin with
    two certain bytes; and any two other such characters in a row.
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


UNKNOWN_SCORE = float(np.finfo(np.float32).min)
"""The score of every language for a line without known features."""


@dataclass(frozen=True)
class LanguageFilter(Filter[tuple[str, ...]]):
    """Drops rows in another language, as identified by langid.

    A line without known features, such as a line of digits, has no language and is kept.
    """

    sides: int
    source: str = option("", "language of the source, for example en; empty: any")
    target: str = option("", "language of the target, for example de; empty: any")
    candidates: str = option("", "languages to choose from, for example en+de+fr; empty: all")

    def __post_init__(self) -> None:
        if self.target and self.sides < 2:
            raise UsageError("The filter langid has a target, but there is only a source.")
        if not (self.source or self.target):
            raise UsageError(
                "The filter langid needs a language, for example langid:source=en:target=de"
            )
        labels = _identifier("").labels
        for language in [*self._expected, *self._candidates]:
            if language not in labels:
                raise UsageError(
                    f"langid does not know the language {language!r}.{nearest(language, labels)} "
                    f"It knows: {' '.join(sorted(labels))}."
                )
        outside = [found for found in self._expected if found not in (self._candidates or labels)]
        if outside:
            raise UsageError(
                f"The filter langid cannot find {outside[0]!r}, which is not one of the candidates "
                f"{self.candidates}."
            )
        _identifier(self.candidates)  # before workers start, which then need not load it

    def score(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """Return the language of each side, empty if it is not checked or unknown."""
        identifier = _identifier(self.candidates)
        expected = (self.source, self.target)[: self.sides]
        return [
            tuple(
                _language(identifier, line) if language else ""
                for line, language in zip(row, expected, strict=True)
            )
            for row in rows
        ]

    def accept(self, score: tuple[str, ...]) -> bool:
        """Return True if no side is in a different language than expected."""
        expected = (self.source, self.target)[: self.sides]
        return all(found in ("", asked) for found, asked in zip(score, expected, strict=True))

    @property
    def _expected(self) -> list[str]:
        return [language for language in (self.source, self.target) if language]

    @property
    def _candidates(self) -> list[str]:
        return self.candidates.split("+") if self.candidates else []


def _language(identifier: Any, line: str) -> str:
    language, score = identifier.classify(line)
    return "" if score <= UNKNOWN_SCORE else str(language)


@lru_cache
def _identifier(candidates: str) -> Any:
    """Load the model, which takes one or two seconds."""
    package = import_optional("py3langid.langid", "The filter langid", "wmt")
    identifier = package.LanguageIdentifier.from_model_file(package.MODEL_FILE)
    if candidates:
        identifier.set_languages(candidates.split("+"))
    return identifier
