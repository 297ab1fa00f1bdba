"""Post-ensemble: the output most similar to those of all systems (Kobayashi, 2018).

PostCosE takes the mean cosine between the vector of an output and the vectors of all outputs.
PostVmfE takes the density at an output, estimated with the kernel of von Mises and Fisher,
exp(kappa cos). For kappa close to 0, it chooses as PostCosE does. The vector of an output is the
mean of the vectors of its words.

The mean ignores unknown words. An output without known words, or with a mean of 0, has a
similarity of 0 with all outputs, and is chosen only if there is no other output. Ties go to the
first system.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.text_files import read_parallel
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.metrics.metric import TextSource, check_lengths, text_label, text_lines
from fairseq_ssl.rerank.word_vectors import WordVectors, read_vectors
from fairseq_ssl.text.tokenization import LineRewriter

SimilarityArray = NDArray[np.float64]
Kernel = Callable[[SimilarityArray], SimilarityArray]
TOLERANCE = 1e-9
"""Densities that differ by less are equal: their sums may be rounded differently."""
KERNELS = ("cosine", "von-mises-fisher")


def cosine(cosines: SimilarityArray) -> SimilarityArray:
    """Return the kernel of PostCosE, the cosine itself."""
    return cosines


def von_mises_fisher(concentration: float) -> Kernel:
    """Return the kernel of PostVmfE, scaled to a maximum of 1.

    Args:
        concentration: kappa, above 0
    """
    return lambda cosines: np.asarray(np.exp(concentration * (cosines - 1)))


@dataclass(frozen=True)
class EnsembleChoice:
    """The outputs that a post-ensemble chose."""

    lines: list[str]
    systems: list[int]
    """Index of the system that each line is from."""
    words: int
    """Number of words in lines that differ between systems."""
    known: int
    """Number of these words with a vector."""


def post_ensemble(
    outputs: Sequence[TextSource],
    vectors: Path | WordVectors,
    *,
    kernel: str = "cosine",
    concentration: float = 1.0,
    weights: Sequence[float] | None = None,
    tokenize: str = "none",
    progress: ProgressFactory = silent_progress,
) -> EnsembleChoice:
    """Choose the output of each sentence that is most similar to those of all systems.

    Args:
        outputs: lines or file of each system, two or more systems
        vectors: word vectors, or a .vec, .vec.gz or .bin file of fastText
        kernel: cosine for PostCosE, von-mises-fisher for PostVmfE
        concentration: kappa of the kernel von-mises-fisher, above 0
        weights: weight of each system, 0 or more (default: 1)
        tokenize: tokenizer of sacreBLEU, or none if spaces separate words
        progress: reports lines

    Example:
        >>> from fairseq_ssl.rerank.word_vectors import VectorTable
        >>> table = {"cat": [1, 0], "cats": [0.9, 0.1], "dog": [0, 1]}
        >>> vectors = VectorTable({word: np.array(row) for word, row in table.items()}, 2)
        >>> post_ensemble([["dog"], ["cat"], ["cats"]], vectors).lines
        ['cats']
    """
    if len(outputs) < 2:
        raise UsageError("A post-ensemble needs two outputs or more.")
    if kernel not in KERNELS:
        raise UsageError(f"`kernel` is {kernel}; expected one of {', '.join(KERNELS)}.")
    if not 0 < concentration < math.inf:
        raise UsageError(f"`concentration` is {concentration}; expected more than 0.")
    chosen_kernel = cosine if kernel == "cosine" else von_mises_fisher(concentration)
    system_weights = _check_weights(weights, len(outputs))
    rows = _read_rows(outputs)
    rewrite = bleu_words(tokenize)
    if isinstance(vectors, Path):
        words = {word for row in rows for text in row for word in rewrite(text).split()}
        vectors = read_vectors(vectors, words)
    means = MeanVectors(vectors, rewrite)
    advance = progress("post-ensemble", "lines")
    systems = []
    for row in rows:
        systems.append(choose_output(row, means, chosen_kernel, system_weights))
        advance(1)
    lines = [row[system] for row, system in zip(rows, systems, strict=True)]
    return EnsembleChoice(lines, systems, means.words, means.known)


def _read_rows(outputs: Sequence[TextSource]) -> list[tuple[str, ...]]:
    """Return the outputs of each sentence."""
    paths = [output for output in outputs if isinstance(output, Path)]
    if len(paths) == len(outputs):
        rows = list(read_parallel(paths))
    else:
        texts = [text_lines(output) for output in outputs]
        for index, text in enumerate(texts):
            check_lengths("output 0", len(texts[0]), f"output {index}", len(text))
        rows = list(zip(*texts, strict=True))
    if not rows:
        raise DataError(f"{text_label(outputs[0], 'output 0')} is empty. Expected a line or more.")
    return rows


def _check_weights(weights: Sequence[float] | None, systems: int) -> SimilarityArray | None:
    if weights is None:
        return None
    if len(weights) != systems:
        raise UsageError(
            f"There are {systems} outputs and {len(weights)} weights. Set `weight` once for each "
            "output."
        )
    if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
        raise UsageError(
            f"`weight` is {', '.join(map(str, weights))}; expected 0 or more, and one above 0."
        )
    return np.array(weights)


@dataclass
class MeanVectors:
    """Mean word vectors of texts, and the number of known words."""

    vectors: WordVectors
    rewrite: LineRewriter = str
    """Tokenizes a text."""
    known: int = 0
    words: int = 0
    _rows: dict[str, SimilarityArray | None] = field(default_factory=dict)

    def __call__(self, text: str) -> SimilarityArray:
        """Return the mean vector of a text, [dimensions], with length 1 or 0."""
        rows = [self._row(word) for word in self.rewrite(text).split()]
        known = [row for row in rows if row is not None]
        self.words += len(rows)
        self.known += len(known)
        if not known:
            return np.zeros(self.vectors.dimensions)
        mean = np.mean(known, axis=0)
        length = float(np.linalg.norm(mean))
        return np.asarray(mean / length) if length > TOLERANCE else np.zeros_like(mean)

    def _row(self, word: str) -> SimilarityArray | None:
        if word not in self._rows:
            vector = self.vectors.vector(word)
            self._rows[word] = None if vector is None else vector.astype(np.float64)
        return self._rows[word]


def densities(
    directions: SimilarityArray, kernel: Kernel, weights: SimilarityArray | None = None
) -> SimilarityArray:
    """Return the density at each output, [systems], of vectors [systems, dimensions].

    f(s) = sum over s' of w(s') K(s, s') / sum of w, including s itself, as in the paper. The
    density of a zero vector is -infinity.

    Args:
        directions: vectors of length 1 or 0
        kernel: function of cosines
        weights: weights of the systems (default: 1)
    """
    valid = (directions != 0).any(1)
    if weights is None:
        weights = np.ones(len(directions))
    similarities = kernel(np.clip(directions @ directions.T, -1.0, 1.0))
    similarities = np.where(valid & valid[:, None], similarities, 0.0)
    return np.where(valid, similarities @ weights / weights.sum(), -np.inf)


def choose_output(
    texts: Sequence[str],
    means: MeanVectors,
    kernel: Kernel,
    weights: SimilarityArray | None = None,
) -> int:
    """Return the index of the chosen system for the outputs of one sentence."""
    if len(set(texts)) == 1:
        return 0
    scores = densities(np.stack([means(text) for text in texts]), kernel, weights)
    return int((scores >= scores.max() - TOLERANCE).argmax())
