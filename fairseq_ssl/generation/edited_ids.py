"""Edits carried out on ids, for many sentences at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.dictionary import EditDictionary


class Edited(NamedTuple):
    """Sentences after their edits."""

    text: Spans
    """Each with its start first."""
    origins: Ids
    """For each of its ids, the position before whose edit kept or made it."""


class EditedIds:
    """Does with ids what `text.edits.application.edited` does with tokens."""

    def __init__(self, edits: EditDictionary, dictionary: Any) -> None:
        """Make it for a dictionary of edits and one of tokens, which gives new words ids."""
        self.edits = edits
        self.dictionary = dictionary
        self.first_transform = edits.first_transform
        labels = edits.labels
        self.own = np.array([label.kept or label.transform is not None for label in labels], int)
        self.put_in = np.array([len(label.gram) for label in labels])
        self.grams = np.zeros((len(labels), self.put_in.max(initial=0)), np.int64)
        for row, label in zip(self.grams, labels, strict=True):
            row[: len(label.gram)] = [dictionary.index(token) for token in label.gram]
        self.transformed: dict[tuple[int, int], int] = {}

    def __call__(self, text: Spans, labels: Ids) -> Edited:
        """Carry out the edits.

        Args:
            text: sentences, each with its start first
            labels: of all their positions; each fits its token
        """
        own = self.own[labels]
        counts = own + self.put_in[labels]
        ends = np.cumsum(counts)
        origins = np.repeat(np.arange(len(labels)), counts)
        ids = text.ids[origins]
        for at in np.flatnonzero(labels >= self.first_transform).tolist():
            ids[ends[at] - 1] = self._transformed(int(text.ids[at]), int(labels[at]))
        with_gram = np.flatnonzero(self.put_in[labels])
        for place in range(self.grams.shape[1]):
            some = with_gram[self.put_in[labels[with_gram]] > place]
            ids[ends[some] - counts[some] + own[some] + place] = self.grams[labels[some], place]
        return Edited(Spans(ids, np.add.reduceat(counts, text.starts)), origins)

    def _transformed(self, token: int, label: int) -> int:
        found = self.transformed.get((token, label))
        if found is None:
            (word,) = self.edits.labels[label].edited(self.dictionary[token])
            found = self.transformed[token, label] = int(self.dictionary.index(word))
        return found
