"""Tags before source sentences, such as ``<BT>``, that tell a model where a pair is from."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.atomic import atomic_lines, exclusive
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.vocabulary import RESERVED, read_entries


def check_tag(tag: str) -> None:
    """Refuse what can not be one token of a line and one entry of a dictionary."""
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
