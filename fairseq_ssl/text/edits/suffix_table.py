"""Pairs of suffixes that words exchange: those of English, or those in a user's file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines

NONE = "-"
"""Stands for no suffix."""
ENGLISH = """
- s      a A i I
- d
- es
- ing
- ed
- ly
- er
- al
- n      a A i I
- y      m
- ation
e ing
d t
d s
s ing
n ing
nce t
s ed
ing ed
ing ion
ing ation
t ce
y ic
t s
e al
y ily
y ied
y ical
y ies
"""
"""Those of PIE, table 10, each for both directions, and words that they are not used on.

The words are those of the authors' code: "a" and "an" are two words and not two forms of one.
"""

Pair = tuple[str, str, list[str]]


def english_suffixes() -> list[Pair]:
    """Return the pairs of PIE, table 10, in its order."""
    return _parsed(ENGLISH.splitlines(), "table 10")


def read_suffixes(path: Path) -> list[Pair]:
    """Read lines of two suffixes and, perhaps, words with the first that are left alone."""
    pairs = _parsed(read_lines(path), str(path))
    if not pairs:
        raise DataError(f"{path} holds no suffixes; expected lines such as: - s")
    return pairs


def _parsed(lines: Iterable[str], name: str) -> list[Pair]:
    pairs: dict[frozenset[str], Pair] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        left, right = ("" if word == NONE else word for word in [*words, "", ""][:2])
        if len(words) < 2 or left == right:
            raise DataError(
                f"{name}:{number} is {line!r}; expected two suffixes, {NONE} for none, and words "
                "that keep the first: e ing"
            )
        wrong = [word for word in words[2:] if not word.endswith(left)]
        if wrong:
            raise DataError(f"{name}:{number}: {wrong[0]!r} does not end in {left!r}.")
        if frozenset((left, right)) in pairs:
            raise DataError(f"{name}:{number}: {line!r} is there twice. Every pair goes both ways.")
        pairs[frozenset((left, right))] = (left, right, words[2:])
    return list(pairs.values())
