"""Accuracy: of lines of text, and of classifiers with macro F1 and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.metrics.metric import HYPOTHESES, ReferenceMetric, SentenceStatistics

BINS = 15
"""Number of bins of the confidence, between 0 and 1."""


class Accuracy(ReferenceMetric):
    """Percentage of lines that are equal to one of their references.

    Args:
        references: one text for each annotator, or None if each call passes its references

    Example:
        >>> print(Accuracy().corpus_score(["a b", "c"], [["a b", "c d"]]))
        accuracy = 50.00
    """

    method = "accuracy"
    name = "accuracy"

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return for each hypothesis whether it is correct, and 1."""
        self._check(hypotheses, label)
        columns = zip(*self.references, strict=True)
        pairs = zip(hypotheses, columns, strict=True)
        return np.array([[float(line in references), 1.0] for line, references in pairs])

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the percentage."""
        correct, count = rows.sum(0)
        return {self.name: float(100 * correct / count)}


@dataclass(frozen=True)
class ClassScores:
    """Scores of predictions, in percent, and their confusion matrix."""

    error: float
    accuracy: float
    macro_f1: float
    calibration_error: float | None
    """Expected calibration error, or None without probabilities."""
    confusion: NDArray[np.int64]
    """[gold, predicted]"""


def class_scores(
    gold: Sequence[int],
    predicted: Sequence[int],
    classes: int,
    confidence: Sequence[float] | None = None,
) -> ClassScores:
    """Score predictions against gold classes.

    Args:
        gold: gold class of each text
        predicted: predicted class of each text
        classes: number of classes
        confidence: probability of each prediction
    """
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (np.asarray(gold), np.asarray(predicted)), 1)
    accuracy = 100 * float(np.trace(confusion)) / max(1, len(gold))
    calibration = None
    if confidence is not None:
        calibration = calibration_error(np.asarray(gold) == np.asarray(predicted), confidence)
    return ClassScores(100 - accuracy, accuracy, macro_f1(confusion), calibration, confusion)


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1 of the classes that occur among the gold or predicted classes."""
    correct = np.diag(confusion).astype(float)
    both = (confusion.sum(0) + confusion.sum(1)).astype(float)
    occurring = both > 0
    return (
        100 * float(np.mean(2 * correct[occurring] / both[occurring])) if occurring.any() else 0.0
    )


def calibration_error(correct: NDArray[np.bool_], confidence: Sequence[float]) -> float:
    """Return the expected calibration error (Guo et al., 2017), over bins of equal width."""
    probability = np.asarray(confidence, float)
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, np.asarray(correct, float) - probability, minlength=BINS)
    return 100 * float(np.abs(gaps).sum()) / max(1, len(probability))


def error_statistics(gold: Sequence[int], predicted: Sequence[int]) -> SentenceStatistics:
    """Return for each text whether its prediction is wrong, and 1, [texts, 2]."""
    wrong = np.asarray(gold) != np.asarray(predicted)
    return np.stack([wrong.astype(float), np.ones(len(wrong))], axis=1)


def error_rate(totals: SentenceStatistics) -> float:
    """Return the error rate in percent of summed statistics."""
    return 100 * float(totals[0] / totals[1])
