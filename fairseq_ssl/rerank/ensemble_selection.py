"""Post-ensemble: select the output that is most similar to the outputs of all systems.

PostCosE (Kobayashi, 2018) represents each output as the mean of its word vectors, and selects the
output with the highest mean cosine similarity to all outputs.

Unknown words are ignored. An output without known words, or with a mean of 0, is selected only if
this is true for all outputs. Ties go to the first system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import ProgressFactory, counted, silent_progress
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.metrics.metric import TextSource, check_lengths, text_label, text_lines
from fairseq_ssl.rerank.word_vectors import WordVectors, read_vectors
from fairseq_ssl.text.tokenization import LineRewriter

SimilarityArray = NDArray[np.float64]
TOLERANCE = 1e-9
"""Maximum difference between similarities that count as equal, to allow for rounding errors."""


@dataclass(frozen=True)
class EnsembleChoice:
    """Outputs that `post_ensemble` selected, and the number of words with vectors."""

    lines: list[str]
    """Selected outputs."""
    systems: list[int]
    """System index of each selected output."""
    words: int
    """Number of words in all outputs for sentences on which the systems disagree."""
    known: int
    """Number of the counted `words` that have a vector."""


def post_ensemble(
    outputs: Sequence[TextSource],
    vectors: str | Path | WordVectors,
    *,
    tokenize: str = "none",
    progress: ProgressFactory = silent_progress,
) -> EnsembleChoice:
    """For each sentence, select the output that is most similar to the outputs of all systems.

    Args:
        outputs: output lines or output file of each system, two or more systems
        vectors: word vectors, or a fastText file (``.vec``, ``.vec.gz`` or ``.bin``)
        tokenize: sacreBLEU tokenizer, or ``none`` for tokens separated by spaces
        progress: creates the progress report, which receives the number of processed lines

    Example:
        >>> from fairseq_ssl.rerank.word_vectors import WordVectors
        >>> table = {"cat": [1, 0], "cats": [0.9, 0.1], "dog": [0, 1]}
        >>> vectors = WordVectors({word: np.array(row) for word, row in table.items()}.get, 2)
        >>> post_ensemble([["dog"], ["cat"], ["cats"]], vectors).lines
        ['cats']
    """
    if len(outputs) < 2:
        raise UsageError(
            f"The number of outputs is {len(outputs)}. Expected outputs of at least two systems."
        )
    rows = _read_rows(outputs)
    rewrite = bleu_words(tokenize)
    if isinstance(vectors, str | Path):
        words = {word for row in rows for text in row for word in rewrite(text).split()}
        vectors = read_vectors(Path(vectors), words)
    means = MeanVectors(vectors, rewrite)
    systems = [
        choose_output(row, means) for row in counted(rows, progress("post-ensemble", "lines"))
    ]
    lines = [row[system] for row, system in zip(rows, systems, strict=True)]
    return EnsembleChoice(lines, systems, means.words, means.known)


def _read_rows(outputs: Sequence[TextSource]) -> list[tuple[str, ...]]:
    """Return each sentence's outputs. Raise DataError if line counts differ or are 0."""
    labels = [text_label(output, f"output {index}") for index, output in enumerate(outputs)]
    texts = list(map(text_lines, outputs, labels))
    for text, label in zip(texts, labels, strict=True):
        check_lengths(labels[0], len(texts[0]), label, len(text))
    if not texts[0]:
        raise DataError(f"{labels[0]} is empty. Expected at least one line.")
    return list(zip(*texts, strict=True))


@dataclass
class MeanVectors:
    """Callable that returns the mean word vector of a text, and counts the words of all texts."""

    vectors: WordVectors
    rewrite: LineRewriter = str
    """Tokenizer of texts."""
    known: int = 0
    """Number of words with a vector so far."""
    words: int = 0
    """Number of words so far."""

    def __call__(self, text: str) -> SimilarityArray:
        """Return the mean vector of the known words in a text, scaled to norm 1, [dimensions].

        If no word is known or the mean is 0, the vector is 0.
        """
        rows = list(map(self.vectors.vector, self.rewrite(text).split()))
        known = [row for row in rows if row is not None]
        self.words += len(rows)
        self.known += len(known)
        if not known:
            return np.zeros(self.vectors.dimensions)
        mean = np.mean(known, axis=0, dtype=np.float64)
        length = float(np.linalg.norm(mean))
        return np.asarray(mean / length) if length > TOLERANCE else np.zeros_like(mean)


def similarities(directions: SimilarityArray) -> SimilarityArray:
    """Return the mean cosine similarity of each output to the other outputs, [systems].

    Zero vectors are excluded from the means of other outputs and have similarity -infinity. The
    similarity of an output to itself is omitted, because it adds the same number to all means.

    Args:
        directions: vectors of norm 1 or 0, [systems, dimensions]
    """
    valid = (directions != 0).any(1)
    parts = np.where(valid & valid[:, None], 1.0, 0.0)
    np.fill_diagonal(parts, 0.0)
    total = parts.sum(1, keepdims=True)
    parts = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    cosines = np.clip(directions @ directions.T, -1.0, 1.0)
    return np.where(valid, (parts * cosines).sum(1), -np.inf)


def choose_output(texts: Sequence[str], means: MeanVectors) -> int:
    """Return the index of the output with the highest mean similarity. The first one wins ties."""
    if len(set(texts)) == 1:
        return 0
    scores = similarities(np.stack([means(text) for text in texts]))
    return int((scores >= scores.max() - TOLERANCE).argmax())
