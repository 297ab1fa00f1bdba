"""Word tables that map ids to words, with all words in one byte buffer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.noise.batch import TokenBatch, Tokens

NEWLINE, SPACE = 10, 32
WIDE_SPACES = tuple(space.encode() for space in "\x85\xa0\u1680\u205f\u3000")
GENERAL_SPACES = re.compile(rb"\xe2\x80[\x80-\x8a\xa8\xa9\xaf]")
"""Regular expression for U+2000 to U+200A, U+2028, U+2029 and U+202F in UTF-8."""


@dataclass(frozen=True)
class ByteWords:
    """A table of words, stored in one byte buffer.

    The word with id n is stored in `buffer[starts[n] : starts[n] + sizes[n]]`. The byte after each
    word is a space.
    """

    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    _extended_arrays: dict[str, NDArray[Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, words: Sequence[str]) -> ByteWords:
        """Create a table in which the ids are the indices of `words`."""
        packed = [word.encode() for word in words]
        sizes = np.fromiter(map(len, packed), np.int64, len(packed))
        buffer = np.frombuffer(b"".join(word + b" " for word in packed), np.uint8)
        return cls(buffer, np.cumsum(sizes + 1) - sizes - 1, sizes)

    def and_those_of(self, other: ByteWords) -> ByteWords:
        """Return a table that contains the words of this table, then the words of `other`.

        The next call on this table reuses the memory of the returned table and overwrites the words
        of `other` in it.
        """
        return ByteWords(
            self._extended("buffer", other.buffer),
            self._extended("starts", other.starts + len(self.buffer)),
            self._extended("sizes", other.sizes),
        )

    def _extended(self, name: str, more: NDArray[Any]) -> NDArray[Any]:
        """Return the array `name` followed by `more`, in a buffer that later calls reuse."""
        own, array = getattr(self, name), self._extended_arrays.get(name)
        total = len(own) + len(more)
        if array is None or len(array) < total:
            array = np.concatenate([own, more, more])
            self._extended_arrays[name] = array
        array[len(own) : total] = more
        return array[:total]

    def characters(self) -> NDArray[np.int64]:
        """Return the number of characters in each word."""
        is_first = (self.buffer & 0xC0) != 0x80  # the first UTF-8 byte of a character
        if is_first.all():
            return self.sizes
        up_to = np.zeros(len(self.buffer) + 1, np.int64)
        np.cumsum(is_first, out=up_to[1:])
        counts: NDArray[np.int64] = up_to[self.starts + self.sizes] - up_to[self.starts]
        return counts

    def strings(self, words: Tokens) -> list[str]:
        """Return the words with the ids `words`."""
        data, starts = self.buffer.tobytes(), self.starts[words]
        ends = (starts + self.sizes[words]).tolist()
        spans = zip(starts.tolist(), ends, strict=True)
        return [data[start:end].decode() for start, end in spans]

    def same(self, first: Tokens, second: Tokens) -> NDArray[np.bool_]:
        """Compare two arrays of ids elementwise. The result is True where the words are equal."""
        same: NDArray[np.bool_] = first == second
        # Compare sizes and first bytes, then all bytes of the few remaining pairs.
        alike = np.flatnonzero(~same)
        alike = alike[self.sizes.take(first[alike]) == self.sizes.take(second[alike])]
        begins = (self.buffer[self.starts[words[alike]]] for words in (first, second))
        alike = alike[np.equal(*begins)]
        sizes = self.sizes[first[alike]]
        differs = self._bytes(first[alike], sizes) != self._bytes(second[alike], sizes)
        up_to = np.concatenate([[0], np.cumsum(differs)])
        ends = np.cumsum(sizes)
        same[alike] = up_to[ends] == up_to[ends - sizes]
        return same

    def to_bytes(self, block: TokenBatch) -> bytes:
        """Return a batch as UTF-8 text: words separated by spaces, lines ended by newlines."""
        sizes = self.sizes.take(block.tokens) + 1
        text = self._bytes(block.tokens, sizes)
        text[np.cumsum(sizes)[block.ends - 1] - 1] = NEWLINE
        return text.tobytes()

    def _bytes(self, words: Tokens, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the concatenated bytes of words: `sizes[i]` bytes from the start of `words[i]`.

        All sizes must be 1 or more.
        """
        if not len(words):
            return np.empty(0, np.uint8)
        starts, ends = self.starts.take(words), np.cumsum(sizes)
        step = np.ones(int(ends[-1]), np.int64)
        step[0] = starts[0]
        step[ends[:-1]] = starts[1:] - starts[:-1] - sizes[:-1] + 1
        return self.buffer.take(np.cumsum(step, out=step), mode="wrap")


class WordTable:
    """Mutable word table: the words that a noise can insert, then the words of a current text."""

    def __init__(self, inserted: Sequence[str] = ()) -> None:
        """Create a table in which the id of each word to insert is its index in `inserted`."""
        self.words = self._inserted = ByteWords.of(inserted)

    def start(self, own: ByteWords, lengths: NDArray[np.int64]) -> TokenBatch:
        """Set the current text to the words `own`, in lines of `lengths` words. Return a batch."""
        self.words = self._inserted
        return TokenBatch(self._extend(own), lengths)

    def start_lines(self, lines: Iterable[str]) -> TokenBatch:
        """Set the current text to the whitespace-separated words of `lines`. Return a batch."""
        words = list(map(str.split, lines))
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return self.start(ByteWords.of(list(chain.from_iterable(words))), lengths)

    def add(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Add words to the current text. Return their ids."""
        return self._extend(ByteWords.of(words))

    def strings(self, words: Tokens) -> list[str]:
        """Return the words with the ids `words`."""
        return self.words.strings(words)

    def to_lines(self, block: TokenBatch) -> list[str]:
        """Return each line of a batch as a string, with words joined by spaces."""
        words = self.strings(block.tokens)
        spans = zip(block.lengths.tolist(), block.ends.tolist(), strict=True)
        return [" ".join(words[end - length : end]) for length, end in spans]

    def _extend(self, other: ByteWords) -> NDArray[np.int64]:
        first = len(self.words.starts)
        self.words = self.words.and_those_of(other)
        return np.arange(first, first + len(other.starts))


def split_words(data: bytes, most: int) -> tuple[ByteWords, NDArray[np.int64]] | None:
    """Split lines into words, as in `str.split`. Return the words and the word count of each line.

    Return None if a line is blank, has more than `most` words, or contains NUL or invalid UTF-8.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return None
        data = _with_ascii_spaces(data)
    buffer = np.frombuffer(data, np.uint8).copy()
    after = np.flatnonzero(buffer <= SPACE)
    spaces = buffer.take(after)
    controls = (spaces < 9) | ((spaces > 13) & (spaces < 28))  # not whitespace in `str.split`
    if controls.any():
        if not spaces.min():
            return None
        after, spaces = after[~controls], spaces[~controls]
    buffer[after] = SPACE
    starts: NDArray[np.int64] = np.zeros_like(after)
    np.add(after[:-1], 1, out=starts[1:])
    sizes = after - starts
    ends = np.flatnonzero(spaces == NEWLINE) + 1
    if not sizes.min():
        words = np.flatnonzero(sizes)
        ends = np.searchsorted(words, ends)
        starts, sizes = starts[words], sizes[words]
    lengths = ends.copy()
    lengths[1:] -= ends[:-1]
    if lengths.min() == 0 or lengths.max() > most:
        return None
    return ByteWords(buffer, starts, sizes), lengths


def _with_ascii_spaces(data: bytes) -> bytes:
    """Replace each non-ASCII whitespace character in UTF-8 text with a space."""
    for space in WIDE_SPACES:
        data = data.replace(space, b" ")
    return GENERAL_SPACES.sub(b" ", data) if b"\xe2\x80" in data else data
