"""The output most like those of all systems (Kobayashi, 2018).

PostCosE takes the mean cosine of an output's vector with all of them. PostVmfE takes the density
there, estimated with the kernel of von Mises and Fisher, exp(kappa cos); the nearer kappa is to
0, the more it chooses as PostCosE does. An output's vector is the mean of its words' vectors.

Unknown words are left out of the mean. An output without a known word, or whose words cancel
out, is like nothing: it counts 0 for the others, and is chosen only if there is no other kind.
Of equals the first system's output is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.rerank.word_vectors import WordVectors
from fairseq_ssl.text.tokenization import LineRewriter

SimilarityArray = NDArray[np.float64]
Kernel = Callable[[SimilarityArray], SimilarityArray]
EQUAL = 1e-9
"""Densities that differ by no more are of equals: their sums may be rounded otherwise."""


def cosine(cosines: SimilarityArray) -> SimilarityArray:
    """Return the similarity itself (PostCosE)."""
    return cosines


def von_mises_fisher(concentration: float) -> Kernel:
    """Return the kernel of PostVmfE, but for a factor that is the same for all outputs.

    The highest possible value is 1, whatever the concentration (kappa).
    """
    return lambda cosines: np.asarray(np.exp(concentration * (cosines - 1)))


@dataclass
class Means:
    """Means of words' vectors, and how many words were known."""

    vectors: WordVectors
    rewrite: LineRewriter = str
    """Puts spaces between words."""
    known: int = 0
    words: int = 0
    _rows: dict[str, SimilarityArray | None] = field(default_factory=dict)

    def __call__(self, text: str) -> SimilarityArray:
        """Return the direction of a text, [dimensions]: of length 1, or 0 where there is none."""
        rows = [self._row(word) for word in self.rewrite(text).split()]
        there = [row for row in rows if row is not None]
        self.words += len(rows)
        self.known += len(there)
        if not there:
            return np.zeros(self.vectors.dimensions)
        mean = np.mean(there, axis=0)
        length = float(np.linalg.norm(mean))
        return np.asarray(mean / length) if length > EQUAL else np.zeros_like(mean)

    def _row(self, word: str) -> SimilarityArray | None:
        if word not in self._rows:
            vector = self.vectors.vector(word)
            self._rows[word] = None if vector is None else vector.astype(np.float64)
        return self._rows[word]


def densities(
    directions: SimilarityArray, kernel: Kernel, weights: SimilarityArray | None = None
) -> SimilarityArray:
    """Return how dense it is at each output, [systems], of directions [systems, dimensions].

    f(s) = sum over s' of w(s') K(s, s') / sum of w, itself among them, as the paper has it.
    Without a direction, -infinity.

    Args:
        directions: of length 1, or 0
        kernel: what is made of cosines
        weights: of the systems (equal, if not given)
    """
    there = (directions != 0).any(1)
    if weights is None:
        weights = np.ones(len(directions))
    alike = kernel(np.clip(directions @ directions.T, -1.0, 1.0))
    alike = np.where(there & there[:, None], alike, 0.0)
    return np.where(there, alike @ weights / weights.sum(), -np.inf)


def majority(
    texts: Sequence[str], means: Means, kernel: Kernel, weights: SimilarityArray | None = None
) -> int:
    """Return which of several systems' outputs for one sentence to take."""
    if len(set(texts)) == 1:
        return 0
    found = densities(np.stack([means(text) for text in texts]), kernel, weights)
    return int((found >= found.max() - EQUAL).argmax())
