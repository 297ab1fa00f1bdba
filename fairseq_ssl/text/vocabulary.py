"""Word counts in fairseq ``dict.txt`` format, and tags for source sentences."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.outputs import atomic_lines, exclusive
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.specs import MAX_DIGITS, parse_integer

RESERVED = ("<s>", "<pad>", "</s>", "<unk>")
"""Special symbols in every fairseq dictionary. They are not listed in dictionary files."""

FILLER = re.compile(r"madeupword\d{4,}")
"""Pattern of the symbols with which fairseq pads a dictionary to a multiple of 8."""

OVERWRITE = " #fairseq:overwrite"
"""Suffix of a dictionary line that overwrites an earlier line with the same symbol."""


def fingerprint(symbols: Sequence[str]) -> str:
    """Return a string with the size and a hash of a vocabulary, to store in a checkpoint."""
    digest = hashlib.sha256("\n".join(symbols).encode()).hexdigest()
    return f"{len(symbols)} symbols, {digest[:12]}"


def is_padding_entry(symbol: str) -> bool:
    """Return True for a filler symbol in a dictionary, such as madeupword0000."""
    return FILLER.fullmatch(symbol) is not None


def count_line_words(lines: Iterable[str]) -> Counter[str]:
    """Count the whitespace-separated words in lines."""
    return Counter(chain.from_iterable(map(str.split, lines)))


def read_entries(path: str | Path) -> Iterator[tuple[str, int]]:
    """Yield the words and counts in a fairseq ``dict.txt`` file."""
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rstrip().removesuffix(OVERWRITE).rpartition(" ")
        times = parse_integer(count)
        if not word or times is None:
            raise DataError(
                f"{path}:{number} is {line[:80]!r}. Expected a word, a space and a count of at "
                f"most {MAX_DIGITS} digits, as in dict.LANGUAGE.txt from fairseq-preprocess."
            )
        yield word, times


def read_counts(path: str | Path) -> Counter[str]:
    """Read word counts from a ``dict.txt`` file. The counts of a repeated word are added."""
    counts: Counter[str] = Counter()
    for word, times in read_entries(path):
        counts[word] += times
    return counts


def write_counts(counts: Mapping[str, int], path: str | Path) -> None:
    """Write word counts to a ``dict.txt`` file, by descending count and then alphabetically."""
    with atomic_lines(path) as file:
        file.writelines(count_lines(counts))


def count_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line ``WORD COUNT`` for each word, in the order of `write_counts`."""
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{word} {count}\n"


def check_tag(tag: str) -> None:
    """Raise UsageError if a tag is empty, contains spaces or is a special symbol."""
    if tag.split() != [tag]:
        raise UsageError(f"The tag is {tag!r}. Expected one word without spaces, such as <BT>.")
    if tag in RESERVED:
        raise UsageError(
            f"The tag is {tag}, a fairseq special symbol. Choose a different tag, such as <BT>. "
            f"Special symbols are {', '.join(RESERVED)}."
        )


def split_tags(line: str, tags: Collection[str]) -> tuple[list[str], str]:
    """Split a line into the tags at its beginning and the remaining text."""
    leading: list[str] = []
    while tags:
        word, _, rest = line.lstrip(" ").partition(" ")
        if word not in tags:
            break
        leading.append(word)
        line = rest
    return leading, line


def add_tag_to_dictionary(path: Path, tag: str) -> int | None:
    """Append a tag to a fairseq dictionary file.

    The other entries keep their line numbers, so the ids of binarized data stay valid. Return the
    line number of the tag, or None if the dictionary already contains it.
    """
    with exclusive(path, wait=True):
        if any(word == tag for word, _ in read_entries(path)):
            return None
        lines = list(read_lines(path))
        with atomic_lines(path) as file:
            file.writelines(f"{line}\n" for line in [*lines, f"{tag} 1"])
    return len(lines) + 1
