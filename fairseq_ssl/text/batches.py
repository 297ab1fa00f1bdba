"""Sentences in batches of like lengths, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def padded_batches(
    sizes: Sequence[int], most: int, order: Iterable[int] | None = None
) -> list[list[int]]:
    """Return the places of sentences in batches of at most so many tokens, padding included.

    Args:
        sizes: the tokens of each sentence
        most: the tokens of a batch; a sentence of more is a batch of its own
        order: the places, one after another (default: longest first)
    """
    if order is None:
        order = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    batches: list[list[int]] = []
    longest = 0
    for place in order:
        longest = max(longest, sizes[place])
        if not batches or longest * (len(batches[-1]) + 1) > most:
            batches.append([])
            longest = sizes[place]
        batches[-1].append(place)
    return batches
