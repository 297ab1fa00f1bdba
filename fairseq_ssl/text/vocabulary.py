"""Word counts in the form of fairseq's ``dict.txt``, and tags before source sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.io.outputs import atomic_lines, exclusive
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.specs import MAX_DIGITS, parse_integer

RESERVED = ("<s>", "<pad>", "</s>", "<unk>")
"""Symbols that fairseq has in every dictionary and leaves out of the file."""

FILLER = re.compile(r"madeupword\d{4,}")
"""What fairseq fills a dictionary up with, to a length that computes fast."""

OVERWRITE = " #fairseq:overwrite"
"""Ends a line of a symbol that stands twice in a dictionary file."""


def is_padding_entry(symbol: str) -> bool:
    """Return True for an entry that fairseq added to pad the dictionary."""
    return FILLER.fullmatch(symbol) is not None


def count_words(block: ByteBlock) -> Counter[str]:
    """Count the words of a block; what is no UTF-8 is left to who reads the lines."""
    return Counter(block.data.decode("utf-8", "ignore").split())


def read_entries(path: Path) -> Iterator[tuple[str, int]]:
    """Yield words and counts, line by line, as fairseq-preprocess writes them into dict.txt."""
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rstrip().removesuffix(OVERWRITE).rpartition(" ")
        times = parse_integer(count)
        if not word or times is None:
            raise DataError(
                f"{path}:{number} is {line[:80]!r}; expected a word, a space and its count, of at "
                f"most {MAX_DIGITS} digits, as in the dict.LANGUAGE.txt of fairseq-preprocess."
            )
        yield word, times


def read_counts(path: Path) -> Counter[str]:
    """Read them; those of a word that stands there twice are added."""
    counts: Counter[str] = Counter()
    for word, times in read_entries(path):
        counts[word] += times
    return counts


def write_counts(counts: Mapping[str, int], path: Path) -> None:
    """Write them, the most frequent first, and equal ones by the alphabet."""
    with atomic_lines(path) as file:
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            file.write(f"{word} {count}\n")


def check_tag(tag: str) -> None:
    """Reject a tag that is not a token of a line and an entry of a dictionary."""
    if tag.split() != [tag]:
        raise UsageError(f"The tag is {tag!r}; expected one word without spaces, as <BT>.")
    if tag in RESERVED:
        raise UsageError(
            f"{tag} is a symbol of fairseq's own. Take another tag, as <BT>; taken are "
            f"{', '.join(RESERVED)}."
        )


def add_tag(line: str, tag: str) -> str:
    """Put the tag and a space before the line."""
    return f"{tag} {line}"


def remove_tag(line: str, tag: str) -> str:
    """Take the tag away where the line begins with it: what `add_tag` put there, once."""
    return "" if line == tag else line.removeprefix(f"{tag} ")


def split_tags(line: str, tags: Collection[str]) -> tuple[list[str], str]:
    """Return the tags that the line begins with, and the rest of it."""
    found: list[str] = []
    while tags:
        word, _, rest = line.lstrip(" ").partition(" ")
        if word not in tags:
            break
        found.append(word)
        line = rest
    return found, line


def add_tag_to_dictionary(path: Path, tag: str) -> int | None:
    """Append the tag to a dictionary of fairseq's, and return its line, or None if it was there.

    All other entries keep their lines, and with them the ids of data that is binarized already.
    """
    with exclusive(path, wait=True):
        if any(word == tag for word, _ in read_entries(path)):
            return None
        lines = list(read_lines(path))
        with atomic_lines(path) as file:
            file.writelines(f"{line}\n" for line in [*lines, f"{tag} 1"])
    return len(lines) + 1
