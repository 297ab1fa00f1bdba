"""Extraction and application of edit labels (PIE, sections 2.1 and 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairseq_ssl.edits.alignment import Change, align_tokens
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID, EditDictionary
from fairseq_ssl.edits.labels import KEEP, Label, parse_label
from fairseq_ssl.errors import DataError

CONTINUATION = "##"
"""BERT's prefix of word pieces that continue a word."""


def extract(source: str, target: str, dictionary: EditDictionary | None = None) -> list[str]:
    """Return the labels that change the source to the target.

    Args:
        source: sentence, tokens separated by spaces
        target: corrected sentence
        dictionary: allowed labels; edits without a label are ignored (default: allow all labels)

    Returns:
        One label for the start of the sentence, and one label per source token.

    >>> extract("he go home", "However , he goes home")
    ['APPEND_However_,', 'KEEP', 'REPLACE_goes', 'KEEP']
    """
    tokens = source.split()
    changes = align_tokens(tokens, target.split())
    if changes is None:
        raise DataError(
            "The source and the target are too long and too different to align. Split them into "
            "sentences."
        )
    if dictionary is not None:
        return [
            dictionary.names[label] for label in LabelExtractor(dictionary).label(tokens, changes)
        ]
    labels = [KEEP] * (len(tokens) + 1)
    for change in changes:
        labels[change.position] = Label(change.kept, change.inserted)
    return list(map(str, labels))


def apply(source: str, labels: Sequence[str]) -> str:
    """Apply labels to a sentence.

    Args:
        source: sentence, tokens separated by spaces
        labels: one label for the start of the sentence, and one label per token

    >>> apply("he go home", ["APPEND_However_,", "KEEP", "SUFFIX_+es", "KEEP"])
    'However , he goes home'
    """
    return " ".join(apply_labels(source.split(), [parse_label(name) for name in labels]))


class ExtractedLabels(NamedTuple):
    """Edits between two sentences, with their labels in a dictionary."""

    ids: list[int]
    """Label ids of the sentence start and of each token."""
    changes: list[Change]
    """Edits. The id of an edit without a label is `KEEP_ID`."""

    @property
    def lost(self) -> list[Change]:
        """Edits that have no label in the dictionary."""
        return [change for change in self.changes if self.ids[change.position] == KEEP_ID]


@dataclass(frozen=True)
class LabelExtractor:
    """Function that labels sentence pairs with the labels of a dictionary."""

    dictionary: EditDictionary

    def __call__(self, source: Sequence[str], target: Sequence[str]) -> ExtractedLabels | None:
        """Return the labels, or None if the sides are too long and too different to align.

        Edits without a label are ignored: the source token is kept, and nothing is inserted.
        """
        changes = align_tokens(source, target)
        if changes is None:
            return None
        return ExtractedLabels(self.label(source, changes), changes)

    def label(self, source: Sequence[str], changes: Sequence[Change]) -> list[int]:
        """Return the label ids of the sentence start and of each token."""
        ids = [KEEP_ID] * (len(source) + 1)
        for change in changes:
            ids[change.position] = self._label(source, change)
        return ids

    def _label(self, source: Sequence[str], change: Change) -> int:
        dictionary = self.dictionary
        if change.kept:
            return self._suffix(source, change) or dictionary.appends.get(change.inserted, KEEP_ID)
        if not change.inserted:
            return DELETE_ID
        if len(change.inserted) == 1:
            index = dictionary.transforms.match(source[change.position - 1], change.inserted[0])
            if index is not None:
                return dictionary.first_transform + index
        return dictionary.replaces.get(change.inserted, KEEP_ID)

    def _suffix(self, source: Sequence[str], change: Change) -> int:
        """Return the label id of the suffix transform for an inserted word piece, or 0.

        As in the authors' code, the label of "play" before an inserted "##s" is SUFFIX_+s.
        """
        (piece, *others), transforms = change.inserted, self.dictionary.transforms
        if others or not change.position or not piece.startswith(CONTINUATION):
            return 0
        word = source[change.position - 1]
        index = transforms.match(word, word + piece.removeprefix(CONTINUATION))
        return 0 if index is None else self.dictionary.first_transform + index


def apply_labels(source: Sequence[str], labels: Sequence[Label]) -> list[str]:
    """Apply the labels of the sentence start and of each token to a tokenized sentence.

    Raise DataError if the number of labels is wrong, or a label cannot change its token.
    """
    if len(labels) != len(source) + 1:
        raise DataError(
            f"There are {len(labels)} labels for {len(source)} tokens. Expected "
            f"{len(source) + 1}, one for the start of the sentence and one per token."
        )
    if not labels[0].kept:
        raise DataError(
            f"{labels[0]} cannot be the label of the start of a sentence. Expected KEEP or APPEND."
        )
    result = list(labels[0].gram)
    for token, label in zip(source, labels[1:], strict=True):
        if label is KEEP:
            result.append(token)
        else:
            result += label.edited(token)
    return result
