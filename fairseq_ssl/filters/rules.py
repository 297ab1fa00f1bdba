"""Rule-based filters: length, length ratio, identical sides, encoding."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.text.specs import option

Row = tuple[str, ...]
"""A line of monolingual text, or the two lines of a pair.

Bytes that are not UTF-8 are represented by lone surrogates (``surrogateescape``).
"""

WIDE_SPACES = [
    int.from_bytes(character.encode().ljust(3, b"\0"), "big")
    for character in "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B)))
]
"""Whitespace of two or three bytes in UTF-8, padded with a zero byte."""

RowScore = TypeVar("RowScore")


class Filter(ABC, Generic[RowScore]):
    """Base class of filters that score each row independently.

    Subclass it to write your own filter. Specify it as ``package.module:Class``, or pass an
    instance. A dataclass can declare options with `filters.option`. A field ``sides`` is set to the
    number of files. An interrupted run of `filter_files` resumes if its filters are specified by
    name and their modules have not changed. With instances, it starts anew.

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

    @abstractmethod
    def score(self, rows: Sequence[Row]) -> list[RowScore]:
        """Return one score per row. Scores are shown with the examples of dropped rows."""

    @abstractmethod
    def accept(self, score: RowScore) -> bool:
        """Return True to keep a row with this score."""


class LineLengths(NamedTuple):
    """Lengths of a row, the score of `CleanFilter`."""

    tokens: tuple[int, ...]
    """Number of tokens of each side."""
    max_word_length: int
    """Number of characters of the longest token of all sides."""


@dataclass(frozen=True)
class CleanFilter(Filter[LineLengths]):
    """Drop short and long lines, and pairs of unequal length, like Moses' clean-corpus-n.

    Tokens are separated by whitespace. All limits are inclusive.
    """

    min: int = option(1, "min tokens per side, 1 or more")
    max: int = option(250, "max tokens per side, min or more")
    ratio: float = option(3.0, "max ratio of the longer to the shorter side in tokens, 1 or more")
    max_word_length: int = option(1000, "max characters per token, 1 or more")

    def __post_init__(self) -> None:
        if not (1 <= self.min <= self.max and self.ratio >= 1 and self.max_word_length >= 1):
            raise UsageError(
                f"The filter clean has min={self.min}, max={self.max}, ratio={self.ratio} and "
                f"max-word-length={self.max_word_length}. Expected values of 1 or more, and max of "
                "min or more."
            )

    def score(self, rows: Sequence[Row]) -> list[LineLengths]:
        """Return the number of tokens and the max token length of each row."""
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
    """Drop rows with a long side, measured in tokens (English) or in characters (Japanese).

    Limits are inclusive. Whitespace does not count as characters, so that the length of a Japanese
    sentence does not depend on its word segmentation.
    """

    source: int = option(500, "max length of the source, 0: no limit")
    source_unit: str = option("tokens", "unit of the source length, tokens or characters")
    target: int = option(500, "max length of the target, 0: no limit")
    target_unit: str = option("characters", "unit of the target length, tokens or characters")

    def __post_init__(self) -> None:
        for unit in (self.source_unit, self.target_unit):
            if unit not in UNITS:
                raise UsageError(
                    f"The filter max-length has the unit {unit!r}.{nearest(unit, UNITS)} Expected "
                    f"{' or '.join(UNITS)}."
                )
        if min(self.source, self.target) < 0:
            raise UsageError(
                f"The filter max-length has source={self.source} and target={self.target}. "
                "Expected 0 or more."
            )

    def score(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        """Return the length of each side of each row, in tokens or characters."""
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
    """Drop pairs with identical sides."""

    sides: int
    ignore_case: bool = option(False, "drop pairs that differ only in case, true or false")
    ignore_spaces: bool = option(False, "drop pairs that differ only in spaces, true or false")

    def __post_init__(self) -> None:
        if self.sides < 2:
            raise UsageError("The filter identical compares two sides. Pass a source and a target.")

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Return True for each row with identical sides."""
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
"""Unicode categories of invalid characters, with their names in scores."""


@dataclass(frozen=True)
class EncodingFilter(Filter[str]):
    """Drop rows with invalid UTF-8, control characters or mojibake.

    Control characters include NUL, but not the tab or a carriage return at the end of a line.
    U+FFFD, private use characters and noncharacters such as U+FFFF are invalid, too. Mojibake is
    UTF-8 that was decoded as Latin-1 or Windows-1252, such as Ã¼ for ü, as identified by ftfy.
    """

    twice: bool = option(True, "drop UTF-8 decoded as Latin-1 or Windows-1252, true or false")

    def __post_init__(self) -> None:
        if self.twice:
            import_optional("ftfy", "The filter encoding")  # once, before workers are forked

    def score(self, rows: Sequence[Row]) -> list[str]:
        """Return the first problem of each row, or an empty string."""
        return [next(filter(None, map(self._problem, row)), "") for row in rows]

    def accept(self, score: str) -> bool:
        """Return True if the row has no problem."""
        return not score

    def _problem(self, line: str) -> str:
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
        # Other characters without a category may be emoji of a newer version of Unicode.
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
"""The first two bytes of a character in UTF-8, decoded as Windows-1252: necessary, and fast."""


class LineSizes:
    """Sizes of lines of valid UTF-8, computed from an array of bytes, without a loop over lines.

    Tokens are separated by whitespace, as by `str.split`.
    """

    def __init__(self, data: bytes) -> None:
        """Prepare the lines of `data`. The newline of the last line is optional."""
        self._bytes = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
        byte = self._bytes
        self._is_space = (byte == 32) | (byte - np.uint8(9) < 5) | (byte - np.uint8(28) < 4)
        self._mark_wide_spaces()
        self._ends = np.flatnonzero(byte == ord("\n"))

    def _mark_wide_spaces(self) -> None:
        byte = self._bytes
        first = np.flatnonzero((byte == 0xC2) | (byte - np.uint8(0xE1) < 3))
        if not len(first):
            return
        code = byte[first].astype(np.int32) << 16 | byte[first + 1].astype(np.int32) << 8
        code |= np.where(byte[first] == 0xC2, 0, byte[first + 2])
        wide = first[np.isin(code, WIDE_SPACES)]
        self._is_space[wide] = self._is_space[wide + 1] = True
        self._is_space[wide[byte[wide] != 0xC2] + 2] = True

    def tokens(self) -> NDArray[np.int64]:
        """Return the number of tokens of each line."""
        begins = ~self._is_space
        begins[1:] &= self._is_space[:-1]
        return self._sums(begins)

    def characters(self) -> NDArray[np.int64]:
        """Return the number of characters of each line without whitespace."""
        return self._sums(~self._is_space & (self._bytes & 0xC0 != 0x80))

    def has_longer_token(self, size: int) -> NDArray[np.bool_]:
        """Return True for each line with a token of more than `size` bytes."""
        found = np.zeros(len(self._ends), dtype=np.bool_)
        if np.diff(self._ends, prepend=-1).max() > size + 1:
            spaces = np.flatnonzero(self._is_space)
            after = spaces[np.diff(spaces, prepend=-1) > size + 1]
            found[np.searchsorted(self._ends, after)] = True
        return found

    def _sums(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        starts = np.concatenate([[0], self._ends[:-1] + 1])
        sums: NDArray[np.int64] = np.add.reduceat(flags, starts, dtype=np.int64)
        return sums
