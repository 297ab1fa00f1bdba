"""Extraction of labels from a sentence pair, and their application (PIE, sections 2.1 and 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairseq_ssl.edits.alignment import Change, align_tokens
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID, EditDictionary
from fairseq_ssl.edits.labels import KEEP, Label
from fairseq_ssl.errors import DataError

INSIDE_WORD = "##"
"""The first characters of a BERT's word pieces that continue a word."""


class Extracted(NamedTuple):
    """The edits that make a target of a source, and their labels in a dictionary."""

    ids: list[int]
    """The labels of the start and of each token."""
    changes: list[Change]
    """The edits; those whose place is labeled to be kept have no label in the dictionary."""

    @property
    def lost(self) -> list[Change]:
        """The edits without a label."""
        return [change for change in self.changes if self.ids[change.place] == KEEP_ID]


@dataclass(frozen=True)
class Extraction:
    """Finds the labels of pairs in a dictionary."""

    dictionary: EditDictionary

    def __call__(self, source: Sequence[str], target: Sequence[str]) -> Extracted | None:
        """Return the labels; None for sides too long and too different to compare.

        What has no label is not done, and a token that it would replace is kept.
        """
        found = align_tokens(source, target)
        if found is None:
            return None
        ids = [KEEP_ID] * (len(source) + 1)
        for change in found:
            ids[change.place] = self._label(source, change)
        return Extracted(ids, found)

    def _label(self, source: Sequence[str], change: Change) -> int:
        dictionary = self.dictionary
        if change.kept:
            return self._suffix(source, change) or dictionary.appends.get(change.inserted, KEEP_ID)
        if not change.inserted:
            return DELETE_ID
        if len(change.inserted) == 1:
            number = dictionary.transforms.match(source[change.place - 1], change.inserted[0])
            if number is not None:
                return dictionary.first_transform + number
        return dictionary.replaces.get(change.inserted, KEEP_ID)

    def _suffix(self, source: Sequence[str], change: Change) -> int:
        """Return the transform that adds a suffix, if a word piece is all that is inserted; or 0.

        The authors' code labels "play" before an inserted "##s" so, too.
        """
        (piece, *others), transforms = change.inserted, self.dictionary.transforms
        if others or not change.place or not piece.startswith(INSIDE_WORD):
            return 0
        word = source[change.place - 1]
        number = transforms.match(word, word + piece.removeprefix(INSIDE_WORD))
        return 0 if number is None else self.dictionary.first_transform + number


def apply_labels(source: Sequence[str], labels: Sequence[Label]) -> list[str]:
    """Carry out the edits; the first is that of the sentence's start.

    Raises DataError where a label does not fit its token, and where there are too few or too
    many.
    """
    if len(labels) != len(source) + 1:
        raise DataError(
            f"There are {len(labels)} labels for {len(source)} tokens; expected one for the start "
            f"of the sentence and one for each token: {len(source) + 1}."
        )
    if not labels[0].kept:
        raise DataError(f"{labels[0]} does not fit the start; expected KEEP or APPEND.")
    result = list(labels[0].gram)
    for token, label in zip(source, labels[1:], strict=True):
        if label is KEEP:
            result.append(token)
        else:
            result += label.edited(token)
    return result
