"""How the edits that were made agree with those that are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairseq_ssl.text.edits.coverage import BETA_SQUARED
from fairseq_ssl.text.edits.diff import changes

Edit = tuple[int, bool, tuple[str, ...]]
"""The place, whether the token there stays, and what is put in."""


@dataclass(frozen=True)
class Agreement:
    """Counts over sentences."""

    sentences: int
    exact: int
    """Sentences that are as they should be."""
    wanted: int
    made: int
    right: int
    """Edits that were made and are wanted."""

    @property
    def scores(self) -> dict[str, float]:
        """All scores in percent; F0.5 is 100 where no edit is wanted and none is made."""
        beta = 1 + BETA_SQUARED
        return {
            "exact": _percent(self.exact, self.sentences),
            "precision": _percent(self.right, self.made),
            "recall": _percent(self.right, self.wanted),
            "f0.5": _percent(beta * self.right, self.made + BETA_SQUARED * self.wanted),
        }


def agreement(sentences: Iterable[tuple[str, str, str]]) -> Agreement:
    """Compare the edits from each source to what was made of it, and to what it should be.

    Args:
        sentences: source, made and wanted, tokens between spaces
    """
    counts = [0] * 5
    for source, made, wanted in sentences:
        is_exact = made.split() == wanted.split()
        asked = _edits(source, wanted)
        done = asked if is_exact else _edits(source, made)
        found = (1, is_exact, len(asked), len(done), len(asked & done))
        counts = [before + one for before, one in zip(counts, found, strict=True)]
    return Agreement(*counts)


def _edits(source: str, target: str) -> set[Edit]:
    """Return the edits; one of all tokens where the sides are too long and too different."""
    found = changes(source.split(), target.split())
    if found is None:
        return {(0, False, tuple(target.split()))}
    return {(change.place, change.kept, change.inserted) for change in found}


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 100.0
