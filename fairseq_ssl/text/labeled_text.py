"""Labeled texts: reading, word segmentation, detection of duplicates, and splits by hash."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines

Segmenter = Callable[[str], list[str]]

JOINERS = "\u200c\u200d"
"""Invisible characters within words, for example of Persian."""


@dataclass(frozen=True)
class LabeledText:
    """A text and its class label, as in a line of a labeled file."""

    label: str
    text: str


def read_labeled_text(path: Path) -> Iterator[LabeledText]:
    """Yield the texts of a file with a label, a tab and a text on each line."""
    for number, line in enumerate(read_lines(path), 1):
        label, tab, text = line.partition("\t")
        label = label.strip()
        if not tab or not label or label.split() != [label]:
            raise DataError(
                f"{path}:{number} is {line[:80]!r}; expected a label, a tab and a text. Labels "
                "cannot have spaces."
            )
        yield LabeledText(label, text.strip())


def normalized(text: str) -> str:
    """Return the words of a text in a form that is equal for duplicates.

    Case, spaces and punctuation are ignored, and so are Unicode compatibility variants, such as
    full-width letters. A text without words keeps its other characters.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    letters, _ = _letters_and_marks(plain)
    return " ".join(re.findall(letters, plain)) or "".join(plain.split())


def duplicate_key(text: str) -> bytes:
    """Return a 16-byte hash of the normalized text. Duplicates have the same hash."""
    return hashlib.blake2b(normalized(text).encode(), digest_size=16).digest()


def is_in_fraction(text: str, fraction: float) -> bool:
    """Return True if a text is in a random fraction of all texts, 0 to 1, selected by its hash.

    Duplicates are all inside or all outside. Smaller fractions are subsets of larger ones.
    """
    return _hash_number(text) < fraction * 2**64


def fraction_below(text: str) -> float:
    """Return the fraction of all texts, 0 to 1, that have a lower hash than a text."""
    return _hash_number(text) / 2**64


def _hash_number(text: str) -> int:
    return int.from_bytes(duplicate_key(text)[:8], "big")


def take_balanced(
    texts: Sequence[LabeledText], count: int
) -> tuple[list[LabeledText], list[LabeledText]]:
    """Split texts into up to `count` texts, selected by hash, and the other texts.

    Both lists keep the order of the texts. Duplicates are selected together.
    A group of duplicates is skipped if it would exceed `count`.
    """
    groups = Counter(duplicate_key(example.text) for example in texts)
    selected: set[bytes] = set()
    missing = count
    for key in sorted(groups):
        if groups[key] <= missing:
            selected.add(key)
            missing -= groups[key]
    is_selected = [duplicate_key(example.text) in selected for example in texts]
    return (
        [example for example, inside in zip(texts, is_selected, strict=True) if inside],
        [example for example, inside in zip(texts, is_selected, strict=True) if not inside],
    )


def segment_words(text: str) -> list[str]:
    """Segment a text into words and punctuation marks. Apostrophes within words do not split."""
    letters, marks = _letters_and_marks(text)
    return re.findall(rf"{letters}(?:['\u2019]{letters})*|[^\w\s]{marks}", text)


def _letters_and_marks(text: str) -> tuple[str, str]:
    r"""Return patterns of the letters of a word, and of the combining marks after a character.

    The pattern \w of Python does not match combining marks, such as the vowel signs of Hindi.
    """
    if text.isascii() or not any(map(_is_mark, set(text))):
        return r"\w+", ""
    return rf"\w[\w{_all_marks()}]*", f"[{_all_marks()}]*"


def _is_mark(character: str) -> bool:
    return character in JOINERS or unicodedata.category(character).startswith("M")


@lru_cache(maxsize=1)
def _all_marks() -> str:
    return "".join(filter(_is_mark, map(chr, range(sys.maxunicode + 1))))


CUTS: dict[str, Segmenter] = {"words": segment_words, "spaces": str.split}


def word_view(lines: Iterable[str], cut: Segmenter) -> Iterator[str]:
    """Yield each line as words separated by spaces."""
    return (" ".join(cut(line)) for line in lines)
