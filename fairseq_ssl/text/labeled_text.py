"""Texts with labels: read, cut into words, told apart, divided by what they say."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines

Segmenter = Callable[[str], list[str]]

WORD_PATTERN = re.compile(r"\w+(?:['\u2019]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class LabeledText:
    """A text and what it is."""

    label: str
    text: str


def read_labeled_text(path: Path, text_first: bool = False) -> Iterator[LabeledText]:
    """Yield the lines of a file with a label, a tab and a text, or the other way round."""
    for number, line in enumerate(read_lines(path), 1):
        label, tab, text = line.partition("\t")
        if text_first:
            text, tab, label = line.rpartition("\t")
        label = label.strip()
        if not tab or not label or label.split() != [label]:
            wanted = "a text, a tab and a label" if text_first else "a label, a tab and a text"
            raise DataError(
                f"{path}:{number} is {line[:80]!r}; expected {wanted}, the label without spaces."
            )
        yield LabeledText(label, text.strip())


def normalized(text: str) -> str:
    """Return what two texts share that differ only in case, spaces, punctuation and its form."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def duplicate_key(text: str) -> bytes:
    """Return 16 bytes that tell a normalized text from others."""
    return hashlib.blake2b(normalized(text).encode(), digest_size=16).digest()


def is_in_share(text: str, share: float) -> bool:
    """Tell whether a text is of a share, 0 to 1, of all texts: always the same ones.

    Texts that are equal when normalized fall on the same side.
    """
    return int.from_bytes(duplicate_key(text)[:8], "big") < share * 2**64


def take_balanced(
    texts: Sequence[LabeledText], count: int
) -> tuple[list[LabeledText], list[LabeledText]]:
    """Return `count` of the texts, chosen by their hashes, and the other texts, in their order.

    Texts that are equal when normalized stay together. A group of such texts that is larger than
    the rest of the count is passed over.
    """
    groups = Counter(duplicate_key(one.text) for one in texts)
    taken: set[bytes] = set()
    missing = count
    for key in sorted(groups):
        if groups[key] <= missing:
            taken.add(key)
            missing -= groups[key]
    inside = [duplicate_key(one.text) in taken for one in texts]
    return (
        [one for one, is_in in zip(texts, inside, strict=True) if is_in],
        [one for one, is_in in zip(texts, inside, strict=True) if not is_in],
    )


def segment_words(text: str) -> list[str]:
    """Return words and single marks: letters and digits hold together, apostrophes in them too."""
    return WORD_PATTERN.findall(text)


def split_spaces(text: str) -> list[str]:
    """Return what stands between spaces, of text that is tokenized already."""
    return text.split()


CUTS: dict[str, Segmenter] = {"words": segment_words, "spaces": split_spaces}


def word_view(lines: Iterable[str], cut: Segmenter, known: set[str] | None = None) -> Iterator[str]:
    """Yield lines of words with spaces between; with `known`, without the other words."""
    for line in lines:
        words = cut(line)
        yield " ".join(words if known is None else [word for word in words if word in known])
