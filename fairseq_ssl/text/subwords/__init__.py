"""Subword models of sentencepiece and subword-nmt, and what training both has in common."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


def sample_lines(lines: Iterable[str], size: int, seed: int) -> list[str]:
    """Return `size` of the lines, each as likely as any other, in their order.

    No more than these are held at a time, and the same seed gives the same lines.
    """
    draw = random.Random(seed)
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if number < size:
            kept.append((number, line))
        elif (place := draw.randrange(number + 1)) < size:
            kept[place] = (number, line)
    return [line for _, line in sorted(kept)]


VOCABULARY_SUFFIX = ".vocab"
"""Suffix of the file that lists all subwords, beside a model of either kind."""


@dataclass(frozen=True)
class TrainedSubwords:
    """A trained model in its file."""

    model: Path
    lines: int
    pieces: int
    """Size of the vocabulary."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""


def with_suffix(prefix: Path, suffix: str) -> Path:
    """Return the path with a suffix appended, even if the name contains dots."""
    return prefix.with_name(prefix.name + suffix)
