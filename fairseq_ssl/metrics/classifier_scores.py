"""Exact-match accuracy for text, and accuracy, macro F1 and calibration error for classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.metric import (
    HYPOTHESES,
    SAMPLES,
    ReferenceMetric,
    SeedRange,
    SentenceStatistics,
    bootstrap_statistics,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import read_labeled_text

BINS = 15
"""Number of equal-width confidence bins, for the calibration error."""


class Accuracy(ReferenceMetric):
    """Percentage of lines that equal one of their references.

    Args:
        references: one text per annotator (default: passed to each call)

    Example:
        >>> print(Accuracy().corpus_score(["a b", "c"], [["a b", "c d"]]))
        accuracy = 50.00
    """

    method = "accuracy"
    name = "accuracy"

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return [1, 1] for each line that equals one of its references, and [0, 1] for others."""
        self.check_references(hypotheses, label)
        columns = zip(*map(_without_line_ends, self.references), strict=True)
        pairs = zip(_without_line_ends(hypotheses), columns, strict=True)
        return np.array([[float(line in references), 1.0] for line, references in pairs])

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the corpus accuracy in percent, keyed by the metric name."""
        correct, count = rows.sum(0)
        return {self.name: float(100 * correct / count)}


def _without_line_ends(lines: Sequence[str]) -> list[str]:
    """Return lines without line ends, which `readlines` keeps but `read_lines` removes."""
    return [line.rstrip("\r\n") for line in lines]


@dataclass(frozen=True)
class ClassScores:
    """Classifier scores in percent, and the confusion matrix."""

    error: float
    accuracy: float
    macro_f1: float
    calibration_error: float | None
    """Expected calibration error, or None if there are no probabilities."""
    confusion: NDArray[np.int64]
    """Confusion matrix: number of texts, [gold class, predicted class]."""


def class_scores(
    gold: Sequence[int],
    predicted: Sequence[int],
    classes: int,
    confidence: Sequence[float] | None = None,
) -> ClassScores:
    """Score predictions against gold classes.

    Args:
        gold: index of each text's gold class
        predicted: index of each text's predicted class
        classes: number of classes
        confidence: probability of each predicted class, for the calibration error
    """
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (np.asarray(gold), np.asarray(predicted)), 1)
    accuracy = 100 * float(np.trace(confusion)) / max(1, len(gold))
    calibration = None
    if confidence is not None:
        calibration = calibration_error(np.asarray(gold) == np.asarray(predicted), confidence)
    return ClassScores(100 - accuracy, accuracy, macro_f1(confusion), calibration, confusion)


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1, in percent, of the classes that occur in gold or predicted labels."""
    correct = np.diag(confusion).astype(float)
    both = (confusion.sum(0) + confusion.sum(1)).astype(float)
    occurring = both > 0
    return (
        100 * float(np.mean(2 * correct[occurring] / both[occurring])) if occurring.any() else 0.0
    )


def calibration_error(correct: NDArray[np.bool_], confidence: Sequence[float]) -> float:
    """Return the expected calibration error in percent (Guo et al., 2017), with `BINS` bins."""
    probability = np.asarray(confidence, float)
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, np.asarray(correct, float) - probability, minlength=BINS)
    return 100 * float(np.abs(gaps).sum()) / max(1, len(probability))


COLUMNS = ("error", "accuracy", "macro_f1", "calibration_error")


@dataclass(frozen=True)
class ClassificationReport:
    """Scores of systems against gold labels, with their signature."""

    signature: Signature
    classes: list[str]
    """Sorted labels in the gold file and all predictions."""
    systems: dict[str, dict[str, Any]]
    """Scores, confusion matrix and baseline comparison of each system, JSON-serializable."""


Predictions = tuple[list[str], "list[float] | None"]
"""Predicted labels in a file, and their probabilities, or None if any probability is missing."""


def score_predictions(
    gold: Path,
    systems: Mapping[str, Sequence[Path]],
    baseline: str | None = None,
    samples: int = SAMPLES,
) -> ClassificationReport:
    """Score predicted labels against gold labels.

    Args:
        gold: file with a label, a tab and a text on each line; predictions can contain other labels
        systems: prediction files by system, one per seed; each line contains a label, and
            optionally a tab and probabilities as LABEL=PROBABILITY, separated by spaces
        baseline: name of the system with which the error rates of all other systems are compared
        samples: number of paired bootstrap samples for this comparison
    """
    names = [example.label for example in read_labeled_text(gold)]
    if not names:
        raise DataError(f"{gold} is empty. Expected at least one line.")
    predictions = {
        name: [_read_predictions(path, len(names)) for path in paths]
        for name, paths in systems.items()
    }
    if baseline is not None and baseline not in systems:
        raise UsageError(
            f"`baseline` is {baseline!r}, which is not a system.{nearest(baseline, systems)} "
            f"Expected one of {', '.join(systems)}."
        )
    predicted = (names for seeds in predictions.values() for names, _ in seeds)
    classes = sorted(set(names).union(*predicted))
    index = {name: position for position, name in enumerate(classes)}
    labels = [index[name] for name in names]
    content: dict[str, dict[str, Any]] = {}
    errors: dict[str, list[SentenceStatistics]] = {}
    for name, seeds in predictions.items():
        indices = [[index[label] for label in predicted] for predicted, _ in seeds]
        scores = [
            class_scores(labels, predicted, len(classes), confidence)
            for predicted, (_, confidence) in zip(indices, seeds, strict=True)
        ]
        content[name] = _seed_scores(scores)
        wrong = [np.asarray(predicted) != np.asarray(labels) for predicted in indices]
        errors[name] = [np.stack([row, np.ones(len(row))], 1).astype(float) for row in wrong]
    for name in content if baseline is not None else ():
        if name != baseline:
            result = bootstrap_statistics(
                errors[name], errors[str(baseline)], lambda sums: 100 * (sums[0] / sums[1]), samples
            )
            content[name]["against"] = {
                "baseline": baseline,
                "difference": result.difference,
                "interval": [result.low, result.high],
                "p": result.p,
            }
    signature = Signature("classify-score", {"lines": len(labels)}, {"gold": str(gold)})
    return ClassificationReport(signature, classes, content)


def _read_predictions(path: Path, lines: int) -> Predictions:
    labels, confidence = [], []
    for number, line in enumerate(read_lines(path), 1):
        label, _, rest = line.partition("\t")
        if label.split() != [label]:
            raise DataError(
                f"{path}:{number} contains the label {label[:80]!r}. Expected a single word."
            )
        labels.append(label)
        words = rest.partition("\t")[0].split()
        probabilities = dict(word.rpartition("=")[::2] for word in words)
        if label in probabilities:
            confidence.append(_probability(probabilities[label], f"{path}:{number}"))
    if len(labels) != lines:
        raise DataError(
            f"{path} has {len(labels)} lines but the gold file has {lines}. Both files must have "
            "the same number of lines."
        )
    return labels, confidence if len(confidence) == lines else None


def _probability(word: str, where: str) -> float:
    try:
        probability = float(word)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise DataError(f"{where} contains the probability {word!r}. Expected 0 to 1.")
    return probability


def _seed_scores(scores: Sequence[ClassScores]) -> dict[str, Any]:
    """Return a system's JSON-serializable scores over seeds, and its summed confusion matrix."""
    content: dict[str, Any] = {"seeds": len(scores)}
    for column in COLUMNS:
        values = [getattr(score, column) for score in scores]
        if None not in values:
            seeds = SeedRange(values)
            content[column] = {"mean": seeds.mean, "sd": seeds.std, "values": values}
    content["confusion"] = np.sum([score.confusion for score in scores], axis=0).tolist()
    return content
