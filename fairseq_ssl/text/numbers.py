"""Numbers in files and flags, as people and programs write them."""

from __future__ import annotations

MOST_DIGITS = 15
"""Of a number: it is exact as a floating point number, and no list of numbers overflows."""


def whole_number(word: str) -> int | None:
    """Return what a word of digits, at most 15, says; None where it is anything else."""
    word = word.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS else None


def whole_numbers(listed: str, least: int = 0) -> tuple[int, ...] | None:
    """Return the numbers of a list with commas, such as ``1,2,4``, none below `least`, or None."""
    numbers = [whole_number(word) for word in listed.split(",")]
    if any(number is None or number < least for number in numbers):
        return None
    return tuple(number for number in numbers if number is not None)
