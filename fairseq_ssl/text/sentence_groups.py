"""Sentences joined into one with a separator between them, and taken apart again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def interleave(items: Sequence[Item], between: Item) -> list[Item]:
    """Return the items with `between` after each but the last."""
    woven = [between] * (2 * len(items) - 1)
    woven[::2] = items
    return woven


def first_to_end(items: Sequence[Item]) -> list[Item]:
    """Return X_2, ..., X_n, X_1."""
    return [*items[1:], *items[:1]]


def join_sentences(sentences: Iterable[str], separator: str) -> str:
    """Join sentences into one line with the separator as a token of its own between them.

    Whitespace around a sentence is dropped, a carriage return at its end among it. An empty
    sentence leaves two separators side by side.
    """
    stripped = [sentence.strip() for sentence in sentences]
    return " ".join(filter(None, interleave(stripped, separator)))


def split_sentences(text: str, separator: str) -> list[str]:
    """Undo `join_sentences`: one sentence more than there are separators."""
    if separator not in text:
        return [text.strip()]
    token = rf"(?<!\S){re.escape(separator)}(?!\S)"
    return [sentence.strip() for sentence in re.split(token, text)]
