"""How good a classifier is: errors, F1 of each class, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.metrics.significance import SentenceStatistics

BINS = 15
"""Of confidence, between 0 and 1."""


@dataclass(frozen=True)
class ClassScores:
    """Of a test set; all but the confusion in percent."""

    error: float
    accuracy: float
    macro_f1: float
    calibration_error: float | None
    """How far confidence and accuracy are apart; None where no probabilities are known."""
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
        gold: class of each text
        predicted: the same, by the classifier
        classes: how many there are
        confidence: the probability of each prediction
    """
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (np.asarray(gold), np.asarray(predicted)), 1)
    accuracy = 100 * float(np.trace(confusion)) / max(1, len(gold))
    calibration = None
    if confidence is not None:
        calibration = calibration_error(np.asarray(gold) == np.asarray(predicted), confidence)
    return ClassScores(100 - accuracy, accuracy, macro_f1(confusion), calibration, confusion)


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1 of the classes that are gold or predicted somewhere."""
    right = np.diag(confusion).astype(float)
    both = (confusion.sum(0) + confusion.sum(1)).astype(float)
    there = both > 0
    return 100 * float(np.mean(2 * right[there] / both[there])) if there.any() else 0.0


def calibration_error(right: NDArray[np.bool_], confidence: Sequence[float]) -> float:
    """Return the expected calibration error (Guo et al., 2017), over bins of equal width."""
    probability = np.asarray(confidence, float)
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, np.asarray(right, float) - probability, minlength=BINS)
    return 100 * float(np.abs(gaps).sum()) / max(1, len(probability))


def error_statistics(gold: Sequence[int], predicted: Sequence[int]) -> SentenceStatistics:
    """Return for each text whether it is wrong, and 1: for the paired bootstrap [texts, 2]."""
    wrong = np.asarray(gold) != np.asarray(predicted)
    return np.stack([wrong.astype(float), np.ones(len(wrong))], axis=1)


def error_rate(totals: SentenceStatistics) -> float:
    """Return the error rate, in percent, of statistics that were added up."""
    return 100 * float(totals[0] / totals[1])
