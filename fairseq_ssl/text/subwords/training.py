"""What training a subword model is told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

VOCABULARY = ".vocab"
"""Ends the name of the file that tells all pieces, beside a model of either kind."""


@dataclass(frozen=True)
class Trained:
    """A model in its file, and what came of its training."""

    model: Path
    lines: int
    pieces: int
    """Of the vocabulary."""
    notes: tuple[str, ...] = ()
    """What its user should know."""


def beside(prefix: Path, suffix: str) -> Path:
    """Return the file of a model: the prefix with the suffix after it, whatever dots it has."""
    return prefix.with_name(prefix.name + suffix)
