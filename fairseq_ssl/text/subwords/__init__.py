"""Results and output files of subword training with sentencepiece or subword-nmt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.io.outputs import atomic_path, exclusive

VOCABULARY_SUFFIX = ".vocab"
"""Suffix of a model's vocabulary file."""


@dataclass(frozen=True)
class TrainedSubwords:
    """File, statistics and notices of a trained subword model."""

    model: Path
    lines: int
    """Number of training lines."""
    pieces: int
    """Vocabulary size."""
    notes: tuple[str, ...] = ()
    """Notices for the user, such as the number of skipped lines."""


@contextmanager
def replace_model(prefix: Path, suffix: str) -> Iterator[tuple[Path, Path]]:
    """Yield temporary paths for a model and its vocabulary. Rename both files on success.

    An older model is deleted first, so that an interrupted run cannot combine it with the new
    vocabulary. The vocabulary is renamed first, so that every model has a vocabulary.
    """
    model, vocabulary = Path(f"{prefix}{suffix}"), Path(f"{prefix}{VOCABULARY_SUFFIX}")
    with exclusive(prefix), atomic_path(model) as new, atomic_path(vocabulary) as new_vocabulary:
        yield new, new_vocabulary
        model.resolve().unlink(missing_ok=True)
