"""Metric base classes, scores over seeds, and paired bootstrap resampling."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError, check_integer, check_positive
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.text_files import line_list, read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.m2 import M2Sentence, read_m2


@dataclass(frozen=True)
class SeedRange:
    """Scores of a system over random seeds."""

    values: Sequence[float]
    """One score per seed, for at least one seed."""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """Sample standard deviation over the seeds. It is 0 for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def format(self, digits: int = 2) -> str:
        """Format mean and standard deviation as ``61.20 ± 0.35``, or one score as ``61.20``."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean} ± {self.std:.{digits}f}" if len(self.values) > 1 else mean

    def __str__(self) -> str:
        """Return the mean and, for several seeds, the standard deviation with two decimals."""
        return self.format()


def cell(values: Sequence[float], digits: int = 2) -> str:
    """Return a table cell, such as ``61.20 ± 0.35 (3)`` for 3 seeds, or ``not run`` if empty."""
    return f"{SeedRange(values).format(digits)} ({len(values)})" if values else "not run"


SentenceStatistics = NDArray[np.float64]
"""Statistics, [sentences, numbers]. Except for GLEU, their sums determine the corpus score."""
CorpusScore = Callable[[SentenceStatistics], float]
"""Function that maps summed statistics [numbers] to the corpus score."""

SAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class BootstrapResult:
    """Difference between a system and a baseline, with a 95% confidence interval and a p-value.

    Example:
        >>> print(BootstrapResult(1.5, 0.25, 2.75, 0.021))
        +1.50 (95 %: +0.25 to +2.75, p = 0.0210)
    """

    difference: float
    """System score minus baseline score, on the original corpus."""
    low: float
    """2.5th percentile of the difference over the bootstrap samples."""
    high: float
    """97.5th percentile of the difference over the bootstrap samples."""
    p: float
    """Two-sided p-value."""

    def __str__(self) -> str:
        interval = f"{self.low:+.2f} to {self.high:+.2f}"
        return f"{self.difference:+.2f} (95 %: {interval}, p = {self.p:.4f})"


def bootstrap_statistics(
    system: Sequence[SentenceStatistics],
    baseline: Sequence[SentenceStatistics],
    score: CorpusScore,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> BootstrapResult:
    """Compare the mean scores of two systems over their seeds, with a paired bootstrap.

    Each bootstrap sample draws the same sentences, with replacement, from both systems.

    Args:
        system: statistics of the system, one array per seed
        baseline: statistics of the baseline, one array per seed
        score: function that maps summed statistics to the corpus score
        samples: number of bootstrap samples, 1 or more
        seed: random seed of the samples, 0 or more
    """
    check_positive("resamples", samples)
    check_integer("seed", seed, 0)
    count = len(system[0])
    assert all(len(statistics) == count for statistics in (*system, *baseline))

    def difference(weights: SentenceStatistics) -> float:
        ours, theirs = (
            float(np.mean([score(weights @ statistics) for statistics in seeds]))
            for seeds in (system, baseline)
        )
        return ours - theirs

    observed = difference(np.ones(count))
    rng = np.random.default_rng(seed)
    differences = np.array(
        [
            difference(np.bincount(rng.integers(0, count, count), minlength=count).astype(float))
            for _ in range(samples)
        ]
    )
    low, high = np.percentile(differences, [2.5, 97.5])
    further = int((np.abs(differences - differences.mean()) >= abs(observed)).sum())
    return BootstrapResult(observed, float(low), float(high), (further + 1) / (samples + 1))


TextSource = Path | Sequence[str]
"""Path of a text file, or a list of lines."""
HYPOTHESES = "the hypotheses"
MAX_BETA = 1000
"""Maximum beta of an F score. The square of a much larger beta would overflow."""
BLOCK = 50
"""Number of sentences per worker task."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class MetricScore:
    """A score in percent. Its string representation has the same format as sacreBLEU's scores.

    Example:
        >>> print(MetricScore("F_0.5", {"Precision": 75.0, "Recall": 50.0, "F_0.5": 68.18}))
        F_0.5 = 68.18 (Precision = 75.00 Recall = 50.00)
    """

    name: str
    """Name of the main value, such as ``F_0.5``."""
    values: dict[str, float]
    """Values by name, including the main value."""

    @property
    def score(self) -> float:
        """Main value."""
        return self.values[self.name]

    def __str__(self) -> str:
        further = [
            f"{name} = {value:.2f}" for name, value in self.values.items() if name != self.name
        ]
        score = f"{self.name} = {self.score:.2f}"
        return f"{score} ({' '.join(further)})" if further else score


class Metric(ABC):
    """Base class of metrics that are functions of summed sentence statistics.

    The statistics of each sentence are computed once. Scores of subsets and bootstrap samples need
    only their sums.
    """

    method: str
    """Name of the metric in signatures."""
    name: str
    """Name of the main value, such as ``BLEU``."""

    @abstractmethod
    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the statistics of each hypothesis, [sentences, numbers].

        Args:
            hypotheses: one sentence per item
            label: name of the hypotheses in messages, such as their file path
        """

    @abstractmethod
    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Compute the values of a corpus, by name, from statistics [sentences, numbers]."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters, by name."""

    def get_signature(self) -> Signature:
        """Return the signature, in sacreBLEU's format."""
        return Signature(self.method, self.parameters())

    @property
    def compared(self) -> str:
        """Name of the value that `total_score` returns, which is used in comparisons."""
        return self.name

    def total_score(self, totals: SentenceStatistics) -> float:
        """Compute the corpus score from summed statistics, [numbers]."""
        return self.values(totals[None])[self.name]

    def sentence_values(self, row: SentenceStatistics) -> dict[str, float]:
        """Compute the values of one sentence, by name, from its statistics [numbers]."""
        return {self.name: self.total_score(row)}


class ReferenceMetric(Metric):
    """Base class of metrics that compare hypotheses with references.

    In a subclass, `statistics` must first call `check_references(hypotheses, label)`.

    Args:
        references: one text per annotator (default: passed to each call)
    """

    def __init__(self, references: Sequence[TextSource] | None = None) -> None:
        self.references: list[list[str]] = []
        self._labels: list[str] = []
        if references is not None:
            self._set_references(references)
        self._scored_references = len(self.references)

    def corpus_score(
        self, hypotheses: Sequence[str], references: Sequence[TextSource] | None = None
    ) -> MetricScore:
        """Compute the corpus score of hypotheses against references.

        Args:
            hypotheses: one sentence per item
            references: one text per annotator (default: the metric's references)
        """
        metric = copy(self)
        if references is not None:
            metric._set_references(references)
        score = MetricScore(self.name, metric.values(metric.statistics(hypotheses)))
        self._scored_references = len(metric.references)
        return score

    def sentence_score(self, hypothesis: str, references: Sequence[str]) -> MetricScore:
        """Score one sentence against one or more references."""
        check_reference_list(references)
        metric = copy(self)
        metric._set_references([[reference] for reference in references])
        return metric._score_sentence(hypothesis)

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters by name. Subclasses add their parameters.

        ``references`` is the number of references in the last call of `corpus_score`. Before the
        first call, it is the number of references passed to the constructor.
        """
        return {"references": self._scored_references}

    def _score_sentence(self, hypothesis: str) -> MetricScore:
        return MetricScore(self.name, self.sentence_values(self.statistics([hypothesis])[0]))

    def _set_references(self, references: Sequence[TextSource]) -> None:
        labels = "the references" if len(references) == 1 else "reference {}"
        self._labels = [
            text_label(text, labels.format(number)) for number, text in enumerate(references)
        ]
        self.references = [
            text_lines(text, label) for text, label in zip(references, self._labels, strict=True)
        ]

    def check_references(self, hypotheses: Sequence[str], label: str) -> None:
        """Raise an error if references are missing or not parallel to the hypotheses."""
        if not self.references:
            raise UsageError(f"{self.name} needs references. Set `references`.")
        for name, lines in zip(self._labels, self.references, strict=True):
            check_hypotheses(hypotheses, label, name, len(lines))


class EditMetric(Metric):
    """Base class of metrics that compute an F score over edits.

    Args:
        gold: path of an M2 file, or its sentences
        beta: weight of recall relative to precision, above 0, up to `MAX_BETA`
        jobs: number of processes, 1 or more
        progress: creates the progress report, which receives the number of processed sentences
    """

    def __init__(
        self,
        gold: str | Path | Iterable[M2Sentence],
        beta: float = 0.5,
        jobs: int = 1,
        progress: ProgressFactory = silent_progress,
    ) -> None:
        if not 0 < beta <= MAX_BETA:
            raise UsageError(f"`beta` is {beta}. Expected a number above 0, up to {MAX_BETA:,}.")
        self.name = f"F_{beta:g}"
        self.beta = beta
        self._jobs = jobs
        self._progress = progress
        self._label = "the gold edits"
        if isinstance(gold, str | Path):
            self._label, gold = str(gold), read_m2(gold)
        self.gold = list(gold)

    def corpus_score(self, hypotheses: Sequence[str]) -> MetricScore:
        """Score hypotheses, one for each gold sentence."""
        return MetricScore(self.name, self.values(self.statistics(hypotheses)))

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters by name. Subclasses add their parameters."""
        annotators = max(len(sentence.annotators) for sentence in self.gold)
        return {"beta": self.beta, "annotators": annotators}

    def _named(self, scores: Sequence[float]) -> dict[str, float]:
        """Convert precision, recall and F score to percentages, keyed by name."""
        names = ("Precision", "Recall", self.name)
        return {name: 100 * value for name, value in zip(names, scores, strict=True)}

    def _map(
        self, work: Callable[[list[Item]], Sequence[Result]], items: Sequence[Item], label: str
    ) -> list[Result]:
        """Apply `work` to blocks of sentences in parallel. Return the results in input order."""
        blocks = [list(items[start : start + BLOCK]) for start in range(0, len(items), BLOCK)]
        advance = self._progress(label, "sentences")
        results: list[Result] = []
        for block in LocalExecutor(self._jobs).imap(work, blocks):
            results += block
            advance(len(block))
        return results


def paired_bootstrap(
    metric: Metric,
    system: Sequence[str],
    baseline: Sequence[str],
    resamples: int = SAMPLES,
    seed: int = SEED,
) -> BootstrapResult:
    """Compare two systems with paired bootstrap resampling over sentences (Koehn, 2004).

    Args:
        metric: metric with references or gold edits
        system: hypotheses of the system
        baseline: hypotheses of the baseline
        resamples: number of bootstrap samples, 1 or more
        seed: random seed of the samples, 0 or more

    Example:
        >>> from fairseq_ssl.metrics import Accuracy
        >>> metric = Accuracy([["a b", "c d", "e f"]])
        >>> result = paired_bootstrap(metric, ["a b", "c d", "e"], ["a b", "c", "e"])
        >>> round(result.difference, 2)
        33.33
    """
    ours, theirs = metric.statistics(system), metric.statistics(baseline)
    return bootstrap_statistics([ours], [theirs], metric.total_score, resamples, seed)


def text_lines(text: TextSource, label: str) -> list[str]:
    """Return the lines in a file or a list. Raise TypeError if an item is not a string.

    Args:
        text: path of a text file, or list of lines
        label: name of the text for error messages
    """
    if isinstance(text, str):
        raise TypeError(f"A string was passed for {label}. Expected a list of lines or a `Path`.")
    return line_list(read_lines(text) if isinstance(text, Path) else text, label)


def check_reference_list(references: Sequence[str]) -> None:
    """Raise TypeError if the references for a sentence are a single string."""
    if isinstance(references, str):
        raise TypeError("`references` is a string. Expected a list of references.")


def f_scores(
    correct: float, proposed: float, gold: float, beta: float = 0.5
) -> tuple[float, float, float]:
    """Return precision, recall and F, 0 to 1, from the numbers of correct, proposed and gold edits.

    Precision is 1 if there are no proposed edits. Recall is 1 if there are no gold edits.
    """
    precision = correct / proposed if proposed else 1.0
    recall = correct / gold if gold else 1.0
    below = beta * beta * precision + recall
    return precision, recall, (1 + beta * beta) * precision * recall / below if below else 0.0


def text_label(text: object, default: str) -> str:
    """Return a text's name for messages: its path or `default`."""
    return str(text) if isinstance(text, Path) else default


def check_hypotheses(hypotheses: Sequence[str], label: str, name: str, count: int) -> None:
    """Raise an error unless `hypotheses` is a nonempty list of strings, one per line of `name`."""
    if isinstance(hypotheses, str) or not hasattr(hypotheses, "__len__"):
        kind = type(hypotheses).__name__
        raise TypeError(f"`hypotheses` is of type {kind}. Expected a list of strings.")
    line_list(hypotheses, label)
    check_lengths(name, count, label, len(hypotheses))
    if not len(hypotheses):
        raise DataError(f"There are no lines in {label}. Expected at least one line.")


def check_lengths(name: object, count: int, other: object, other_count: int) -> None:
    """Raise DataError if two parallel texts have different numbers of lines."""
    if count != other_count:
        raise DataError(
            f"There are {count} lines in {name}, but {other_count} in {other}. Both must have the "
            "same number of lines."
        )
