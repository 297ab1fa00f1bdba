"""Sentences as sums of their words' vectors, rare words counting more: SIF (Arora et al., 2017).

A word w counts a / (a + p(w)). Nothing is done about directions that all sentences share: what
is made of the vectors here, PHSIC, takes their mean away by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.learned_filter.dependence import Values, unit
from fairseq_ssl.rerank.word_vectors import Vector, read_vectors

SMOOTHING = 1e-3
"""a of Arora et al."""


@dataclass(frozen=True)
class SentenceVectors:
    """Knows words by their weighted vectors; others are left out of the sum."""

    places: Mapping[str, int]
    weighted: Vector
    """[words and one more, dim]; the last row, of words not known, is 0."""

    @classmethod
    def of(
        cls, path: Path, counts: Mapping[str, int], smoothing: float = SMOOTHING
    ) -> SentenceVectors:
        """Weigh the vectors of the words that were counted.

        Args:
            path: file of vectors
            counts: of each word, in whatever p(w) is taken from
            smoothing: a
        """
        total = sum(counts.values())
        vectors = read_vectors(path, set(counts))
        rows: list[Vector] = []
        places: dict[str, int] = {}
        for word, count in counts.items():
            vector = vectors.vector(word)
            if vector is not None:
                places[word] = len(rows)
                rows.append(vector * np.float32(smoothing / (smoothing + count / total)))
        if not rows:
            raise DataError(
                f"{path} has no word of the text. Expected vectors of its language, for words cut "
                "by the same --tokenizers."
            )
        return cls(places, np.stack([*rows, np.zeros_like(rows[0])]))

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Values:
        """Return the direction of each sentence, [sentences, dim]: of length 1, or 0."""
        if not sentences:
            return np.zeros((0, self.weighted.shape[1]))
        none = len(self.weighted) - 1
        words = [self.places.get(word, none) for words in sentences for word in (*words, "")]
        ends = np.cumsum([len(words) + 1 for words in sentences])
        starts = np.concatenate([[0], ends[:-1]])
        rows = self.weighted[words].astype(np.float64)
        return unit(np.add.reduceat(rows, starts.astype(np.intp), axis=0))
