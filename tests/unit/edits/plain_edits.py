"""Slow references for PIE's alignment and figure 1, implemented from their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import groupby

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import Transforms

Part = tuple[str, str]
"""An operation, c for copy, d for delete or i for insert, and its tokens with spaces between."""


def table(text: str) -> list[str]:
    """Return the rows of a table, without its comments."""
    return [row for row in text.strip().splitlines() if not row.startswith("#")]


def plain_diff(source: Sequence[str], target: Sequence[str]) -> list[Part]:
    """Split substitutions and merge adjacent insertions of the cheapest alignment."""
    parts = []
    for step, token, word in plain_steps(source, target):
        if step == "insert":
            parts.append(("i", word))
        elif step == "delete":
            parts.append(("d", token))
        else:
            parts += [("c", token)] if token == word else [("d", token), ("i", word)]
    merged: list[Part] = []
    for operation, group in groupby(parts, key=lambda part: part[0]):
        words = [word for _, word in group]
        merged += [("i", " ".join(words))] if operation == "i" else [(operation, w) for w in words]
    return merged


def plain_steps(source: Sequence[str], target: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the alignment by the recursive definition of the distance."""

    @cache
    def ways(i: int, j: int) -> list[tuple[float, str]]:
        """Return the cost of each last step, in order of preference for ties."""
        found = []
        if i and j:
            token, word = source[i - 1], target[j - 1]
            cost = 0.0 if token == word else 1 + abs(len(token) - len(word)) / 1000
            found.append((least(i - 1, j - 1) + cost, "pair"))
        if j:
            found.append((least(i, j - 1) + 1, "insert"))
        if i:
            found.append((least(i - 1, j) + 1, "delete"))
        return found

    @cache
    def least(i: int, j: int) -> float:
        return min((cost for cost, _ in ways(i, j)), default=0.0)

    i, j, steps = len(source), len(target), []
    while i or j:
        step = next(step for cost, step in ways(i, j) if cost == least(i, j))
        token = "" if step == "insert" else source[i - 1]
        word = "" if step == "delete" else target[j - 1]
        steps.append((step, token, word))
        i, j = i - bool(token), j - bool(word)
    return steps[::-1]


def figure_1(
    diff: Sequence[Part], grams: Collection[str], transformed: Callable[[str, str], str | None]
) -> list[str]:
    """Return the edits of the start and of each token, with transforms from `transformed`."""
    edits, last = ["KEEP"], ""
    for operation, words in diff:
        if operation != "i":
            edits.append("KEEP" if operation == "c" else "DELETE")
            last = words
            continue
        name = words.replace(" ", "_")
        if edits[-1] == "KEEP":
            edits[-1] = f"APPEND_{name}" if words in grams else "KEEP"
        else:
            replaced = f"REPLACE_{name}" if words in grams else "KEEP"
            edits[-1] = transformed(last, words) or replaced
    return edits


def is_possible(dictionary: EditDictionary, label: int, token: str | None) -> bool:
    """Return True if a label can be applied to a token. None is the start of the sentence."""
    if token is None:
        return dictionary.labels[label].kept
    number = label - dictionary.first_transform
    return number < 0 or number in possible_transforms(dictionary.transforms, token)


def possible_transforms(transforms: Transforms, word: str) -> list[int]:
    """Return the indices of the transforms that can change a word, including all merges."""
    numbers = range(len(transforms.table))
    return [number for number in numbers if transforms.apply(number, word) is not None]
