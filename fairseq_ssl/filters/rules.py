"""Rule-based filters: length, length ratio, identical sides, encoding."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, import_optional
from fairseq_ssl.options import check, option

Row = tuple[str, ...]
"""A line of monolingual text, or the two lines of a pair.

Bytes that are not valid UTF-8 are represented by lone surrogates (``surrogateescape``).
"""

WIDE_SPACES = [
    int.from_bytes(character.encode().ljust(3, b"\0"), "big")
    for character in "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B)))
]
"""UTF-8 encodings of non-ASCII whitespace as 3-byte integers, zero-padded on the right."""

Sizes: TypeAlias = NDArray[np.int64]
RowScore = TypeVar("RowScore")


class Filter(ABC, Generic[RowScore]):
    """Base class of filters that score each row independently.

    Subclass it to write your own filter. Specify it as ``package.module:Class``, or pass an
    instance. A dataclass can declare options with `filters.option`. If it has a field ``sides``,
    the field is set to the number of sides. A filter must not remember earlier rows, because each
    process reads other rows. An interrupted run of `filter_files` resumes if its filters are
    specified by name and their modules have not changed. With instances, the run starts anew.

    >>> class Question(Filter):
    ...     "Drop pairs in which only one side is a question."
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

    compares_sides: ClassVar[bool] = False
    """True for a filter of pairs, which rejects text with one side."""

    @abstractmethod
    def score(self, rows: Sequence[Row]) -> list[RowScore]:
        """Return one score per row. Scores are shown with the examples of dropped rows."""

    @abstractmethod
    def accept(self, score: RowScore) -> bool:
        """Return True to keep a row with this score."""


class LineSizes:
    """Line sizes in tokens and characters, computed with array operations on UTF-8 bytes.

    Tokens are separated by whitespace, as in `str.split`.
    """

    def __init__(self, data: bytes) -> None:
        """Measure the lines of UTF-8 text. The newline after the last line is optional."""
        byte = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
        is_space = (byte == 32) | (byte - np.uint8(9) < 5) | (byte - np.uint8(28) < 4)
        _mark_wide_spaces(byte, is_space)
        spaces = np.flatnonzero(is_space)
        characters = np.cumsum(~is_space & (byte & 0xC0 != 0x80), dtype=np.int32)
        self._lengths = np.diff(characters[spaces], prepend=0)  # of the preceding token
        newlines = np.flatnonzero(byte[spaces] == ord("\n"))
        self._starts = np.concatenate([[0], newlines[:-1] + 1])

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> LineSizes:
        """Measure strings as lines. Newlines in them count as spaces, surrogates as characters."""
        text = "".join(line.replace("\n", " ") + "\n" for line in lines)
        return cls(text.encode("utf-8", "replace"))

    def tokens(self) -> Sizes:
        """Return the number of tokens in each line."""
        return np.add.reduceat(self._lengths > 0, self._starts, dtype=np.int64)

    def characters(self) -> Sizes:
        """Return the number of non-whitespace characters in each line."""
        return np.add.reduceat(self._lengths, self._starts)

    def longest_token(self) -> Sizes:
        """Return the character count of the longest token in each line, 0 for blank lines."""
        return np.maximum.reduceat(self._lengths, self._starts)


def _mark_wide_spaces(byte: NDArray[np.uint8], is_space: NDArray[np.bool_]) -> None:
    """Set `is_space` to True at all bytes of the characters in `WIDE_SPACES`."""
    first = np.flatnonzero((byte == 0xC2) | (byte - np.uint8(0xE1) < 3))
    if not len(first):
        return
    code = byte[first].astype(np.int32) << 16 | byte[first + 1].astype(np.int32) << 8
    code |= np.where(byte[first] == 0xC2, 0, byte[first + 2])
    wide = first[np.isin(code, WIDE_SPACES, kind="table")]
    is_space[wide] = is_space[wide + 1] = True
    is_space[wide[byte[wide] != 0xC2] + 2] = True


class LengthFilter(Filter[Any]):
    """Base class of length filters, which use arrays to score and accept many rows at once."""

    @abstractmethod
    def measure(self, sides: Sequence[LineSizes]) -> NDArray[Any]:
        """Return one score per row, computed from the line sizes of each side, [rows]."""

    @abstractmethod
    def accept(self, score: Any) -> Any:
        """Return True to keep a row with this score. For an array of scores, return a mask."""

    def score(self, rows: Sequence[Row]) -> Any:
        """Return one score per row, as an array."""
        return self.measure([LineSizes.of_lines(side) for side in zip(*rows, strict=True)])


@dataclass(frozen=True)
class CleanFilter(LengthFilter):
    """Drop short and long lines, and pairs with a high length ratio, as in Moses' clean-corpus-n.

    Tokens are separated by whitespace. All limits are inclusive.
    """

    min: int = option(1, "min number of tokens per side", low=1)
    max: int = option(250, "max number of tokens per side", low=1)
    ratio: float = option(
        3.0, "max ratio of the longer side's length to the shorter side's length, in tokens", low=1
    )
    max_word_length: int = option(1000, "max number of characters per token", low=1)

    def __post_init__(self) -> None:
        check(self)
        if self.min > self.max:
            raise UsageError(
                f"`min` is {self.min} but `max` is {self.max}. Expected `min` to be at most `max`."
            )

    def measure(self, sides: Sequence[LineSizes]) -> NDArray[Any]:
        """Return each row's number of tokens per side, and its maximum token length."""
        tokens = np.stack([side.tokens() for side in sides], axis=1)
        fields = [("tokens", np.int64, (len(sides),)), ("max_word_length", np.int64)]
        scores = np.empty(len(tokens), fields)
        scores["tokens"] = tokens
        scores["max_word_length"] = np.max([side.longest_token() for side in sides], axis=0)
        return scores

    def accept(self, score: Any) -> Any:
        """Return True if all lengths and the length ratio are within the limits."""
        shorter, longer = score["tokens"].min(-1), score["tokens"].max(-1)
        accepted = (shorter >= self.min) & (longer <= self.max)
        accepted &= score["max_word_length"] <= self.max_word_length
        return accepted & (longer / np.maximum(shorter, 1) <= self.ratio)


UNITS = ("tokens", "characters")


@dataclass(frozen=True)
class MaxLengthFilter(LengthFilter):
    """Drop rows with a long side, measured in tokens or, for languages such as ja, in characters.

    Limits are inclusive. Whitespace characters are not counted, so that the length of a Japanese
    sentence does not depend on its word segmentation.
    """

    source: int = option(500, "max length of the source; 0 disables the limit", low=0)
    source_unit: str = option("tokens", "unit of the source length", choices=UNITS)
    target: int = option(500, "max length of the target; 0 disables the limit", low=0)
    target_unit: str = option("characters", "unit of the target length", choices=UNITS)

    def __post_init__(self) -> None:
        check(self)

    def measure(self, sides: Sequence[LineSizes]) -> NDArray[Any]:
        """Return the length of each side in tokens or characters, [rows, sides]."""
        units = (self.source_unit, self.target_unit)
        lengths = [
            side.tokens() if unit == "tokens" else side.characters()
            for side, unit in zip(sides, units, strict=False)
        ]
        return np.stack(lengths, axis=1)

    def accept(self, score: Any) -> Any:
        """Return True if no side is longer than its limit."""
        limits = np.array([self.source, self.target])[: score.shape[-1]]
        return ((score <= limits) | (limits == 0)).all(-1)


@dataclass(frozen=True)
class IdenticalFilter(Filter[bool]):
    """Drop pairs with identical sides."""

    compares_sides = True
    ignore_case: bool = option(False, "also drop pairs that differ only in case")
    ignore_spaces: bool = option(False, "also drop pairs that differ only in spaces")

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Return True for each row with identical sides, and False for the other rows."""
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
}
"""Unicode categories of invalid characters, and their descriptions in scores."""


@dataclass(frozen=True)
class EncodingFilter(Filter[str]):
    """Drop rows with invalid UTF-8, control characters or mojibake.

    Control characters include NUL, but not the tab or a carriage return at the end of a line.
    U+FFFD, private use characters and noncharacters such as U+FFFF are also invalid. Mojibake is
    UTF-8 text that was decoded as Latin-1 or Windows-1252, such as Ã¼ for ü. It is detected with
    ftfy.
    """

    twice: bool = option(
        True, "drop rows with mojibake (UTF-8 text decoded as Latin-1 or Windows-1252)"
    )

    def __post_init__(self) -> None:
        if self.twice:
            import_optional("ftfy", "The filter encoding")  # once, before workers are forked

    def score(self, rows: Sequence[Row]) -> list[str]:
        """Return a description of the first problem in each row, or an empty string."""
        return [next(filter(None, map(self._problem, row)), "") for row in rows]

    def accept(self, score: str) -> bool:
        """Return True if the row has no problem."""
        return not score

    def _problem(self, line: str) -> str:
        line = line.removesuffix("\r")
        if not line.isprintable() and (problem := _bad_character(line)):
            return problem
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
        # Other unassigned characters may be emoji from a newer Unicode version.
        if "\ufdd0" <= character <= "\ufdef" or ord(character) & 0xFFFE == 0xFFFE:
            return f"noncharacter U+{ord(character):04X}"
    return ""


def _decoded_twice(line: str) -> str:
    if not TWICE.search(line):
        return ""
    fixed = import_optional("ftfy", "The filter encoding").fix_encoding(line)
    words = zip(line.split(" "), fixed.split(" "), strict=False)
    return next((f"{wrong} for {word}" for wrong, word in words if wrong != word), "")


CONTINUATION = re.escape(bytes(range(0x80, 0xC0)).decode("cp1252", "ignore"))
TWICE = re.compile(f"[\u00c2-\u00f4][{CONTINUATION}]")
"""Regular expression for the first two bytes of a UTF-8 character, decoded as Windows-1252.

Mojibake always contains a match, and a search is faster than ftfy.
"""
