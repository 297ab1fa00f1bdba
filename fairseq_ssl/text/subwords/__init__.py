"""Subword models of sentencepiece and subword-nmt, and helpers for the training of both."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


def sample_lines(lines: Iterable[str], size: int, seed: int) -> list[str]:
    """Return a uniform sample of up to `size` lines, in their order, by reservoir sampling.

    Only the sample is held in memory. The same seed gives the same sample.
    """
    generator = random.Random(seed)
    reservoir: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if number < size:
            reservoir.append((number, line))
        elif (index := generator.randrange(number + 1)) < size:
            reservoir[index] = (number, line)
    return [line for _, line in sorted(reservoir)]


VOCABULARY_SUFFIX = ".vocab"
"""Suffix of the vocabulary file of a model."""


@dataclass(frozen=True)
class TrainedSubwords:
    """File, statistics and notices of a trained subword model."""

    model: Path
    lines: int
    """Number of training lines."""
    pieces: int
    """Size of the vocabulary."""
    notes: tuple[str, ...] = ()
    """Notices for the user."""


def with_suffix(prefix: Path, suffix: str) -> Path:
    """Append a suffix to the name of a path. Unlike Path.with_suffix, keep existing suffixes."""
    return prefix.with_name(prefix.name + suffix)
