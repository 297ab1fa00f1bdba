"""The interface of all metrics, and the paired bootstrap between systems."""

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

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import ProgressFactory
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.m2 import M2Sentence, read_m2


@dataclass(frozen=True)
class SeedRange:
    """Scores of several seeds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedRange:
        """Return the range of one value or more."""
        assert values
        return cls(tuple(values))

    @property
    def mean(self) -> float:
        """Return the mean."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Return the sample standard deviation, 0 for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def shown(self, digits: int = 2) -> str:
        """Return ``61.20 ± 0.35``, or ``61.20`` for a single value."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean} ± {self.deviation:.{digits}f}" if len(self.values) > 1 else mean

    def __str__(self) -> str:
        """Return the mean and the standard deviation with two digits."""
        return self.shown()


def cell(values: Sequence[float], digits: int = 2) -> str:
    """Return a table cell: ``61.20 ± 0.35 (3)``, the number of seeds last, or ``not run``."""
    return f"{SeedRange.of(values).shown(digits)} ({len(values)})" if values else "not run"


SentenceStatistics = NDArray[np.float64]
"""[sentences, numbers]: statistics whose sums determine the score of a corpus."""
CorpusScore = Callable[[SentenceStatistics], float]
"""Returns the score of summed statistics, [numbers]."""

SAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class BootstrapResult:
    """Difference between a system and a baseline, with its confidence interval.

    Example:
        >>> print(BootstrapResult(1.5, 0.25, 2.75, 0.021))
        +1.50 (95 %: +0.25 to +2.75, p = 0.0210)
    """

    difference: float
    """System minus baseline, on the whole corpus."""
    low: float
    """Lower end of the interval that holds 95 % of the samples."""
    high: float
    p: float
    """Probability of a difference at least as large by chance, in either direction."""

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
    """Compare the mean scores of two systems over resampled corpora.

    Every sample draws the same sentences, with replacement, from both systems.

    Args:
        system: statistics of each seed of the system
        baseline: statistics of each seed of the baseline
        score: the score of summed statistics
        samples: number of bootstrap samples
        seed: seed of the samples
    """
    count = len(system[0])
    assert all(len(statistics) == count for statistics in (*system, *baseline))

    def difference(weights: SentenceStatistics) -> float:
        ours, theirs = (
            float(np.mean([score(weights @ statistics) for statistics in each]))
            for each in (system, baseline)
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
"""The path of a text file, or its lines."""
HYPOTHESES = "the hypotheses"
BLOCK = 50
"""Number of sentences that a process scores at a time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class MetricScore:
    """A score in percent, which prints as the scores of sacreBLEU do.

    Example:
        >>> print(MetricScore("F_0.5", {"Precision": 75.0, "Recall": 50.0, "F_0.5": 68.18}))
        F_0.5 = 68.18 (Precision = 75.00 Recall = 50.00)
    """

    name: str
    """Name of the value that systems are compared by."""
    values: dict[str, float]
    """All values by name."""

    @property
    def score(self) -> float:
        """Return the value that systems are compared by."""
        return self.values[self.name]

    def __str__(self) -> str:
        others = [
            f"{name} = {value:.2f}" for name, value in self.values.items() if name != self.name
        ]
        shown = f"{self.name} = {self.score:.2f}"
        return f"{shown} ({' '.join(others)})" if others else shown


class Metric(ABC):
    """A score of a corpus that follows from statistics of its sentences.

    Subclasses count the statistics of each sentence once. Scores of parts of the corpus and of
    bootstrap samples only add them up.
    """

    method: str
    """Name of the metric in signatures."""
    name: str
    """Name of the value that systems are compared by."""

    @abstractmethod
    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the statistics of each hypothesis, [sentences, numbers].

        Args:
            hypotheses: one sentence each
            label: what messages call the hypotheses, such as the name of their file
        """

    @abstractmethod
    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return all values by name, of the statistics of some sentences."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters in the signature."""

    def get_signature(self) -> Signature:
        """Return the method, its parameters and versions, in the form of sacreBLEU's signatures."""
        return Signature(self.method, self.parameters())

    def total_score(self, totals: SentenceStatistics) -> float:
        """Return the score of statistics that are summed over sentences, [numbers]."""
        return self.values(totals[None])[self.name]

    def sentence_values(self, row: SentenceStatistics) -> dict[str, float]:
        """Return the values of one sentence, from its statistics."""
        return {self.name: self.total_score(row)}


class ReferenceMetric(Metric):
    """A metric that compares text with references.

    Args:
        references: one text for each annotator, or None if each call passes its references
    """

    def __init__(self, references: Sequence[TextSource] | None = None) -> None:
        self.references: list[list[str]] = []
        self._labels: list[str] = []
        if references is not None:
            self._set_references(references)

    def corpus_score(
        self, hypotheses: Sequence[str], references: Sequence[TextSource] | None = None
    ) -> MetricScore:
        """Return the score of a corpus.

        Args:
            hypotheses: one sentence each
            references: one text for each annotator (default: those of the metric)
        """
        if references is not None:
            self._set_references(references)
        return MetricScore(self.name, self.values(self.statistics(hypotheses)))

    def sentence_score(self, hypothesis: str, references: Sequence[str]) -> MetricScore:
        """Return the score of one sentence with one reference or more."""
        metric = copy(self)
        metric._set_references([[reference] for reference in references])
        return metric._score_sentence(hypothesis)

    def parameters(self) -> dict[str, Any]:
        """Return the number of references."""
        return {"references": len(self.references)}

    def _score_sentence(self, hypothesis: str) -> MetricScore:
        return MetricScore(self.name, self.sentence_values(self.statistics([hypothesis])[0]))

    def _set_references(self, references: Sequence[TextSource]) -> None:
        labels = "the references" if len(references) == 1 else "reference {}"
        self._labels = [
            text_label(text, labels.format(number)) for number, text in enumerate(references)
        ]
        self.references = [text_lines(text) for text in references]

    def _check(self, hypotheses: Sequence[str], label: str) -> None:
        """Raise an error unless there is a reference for each hypothesis."""
        if not self.references:
            raise UsageError(f"{self.name} needs references. Set `reference`.")
        for name, lines in zip(self._labels, self.references, strict=True):
            check_lengths(name, len(lines), label, len(hypotheses))


class EditMetric(Metric):
    """A metric of edits, whose score is F of precision and recall.

    Args:
        beta: weight of recall against precision, above 0
        jobs: number of processes, 1 or more
        progress: reports scored sentences
    """

    def __init__(self, beta: float, jobs: int, progress: ProgressFactory) -> None:
        if not beta > 0:
            raise UsageError(f"`beta` is {beta}; expected a number above 0.")
        self.name = f"F_{beta:g}"
        self.beta = beta
        self._jobs = jobs
        self._progress = progress

    def corpus_score(self, hypotheses: Sequence[str]) -> MetricScore:
        """Return the score of a corpus, one hypothesis for each gold sentence."""
        return MetricScore(self.name, self.values(self.statistics(hypotheses)))

    def parameters(self) -> dict[str, Any]:
        """Return beta."""
        return {"beta": self.beta}

    def _named(self, scores: Sequence[float]) -> dict[str, float]:
        """Return precision, recall and F in percent."""
        names = ("Precision", "Recall", self.name)
        return {name: 100 * value for name, value in zip(names, scores, strict=True)}

    def _map(
        self, work: Callable[[list[Item]], Sequence[Result]], items: Sequence[Item], label: str
    ) -> list[Result]:
        """Apply `work` to blocks of sentences in parallel."""
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
    """Compare two systems by a paired bootstrap over sentences (Koehn, 2004).

    Args:
        metric: a metric with its references
        system: the hypotheses of the system
        baseline: the hypotheses of the baseline
        resamples: number of bootstrap samples, 1 or more
        seed: seed of the samples

    Example:
        >>> from fairseq_ssl.metrics import Accuracy
        >>> metric = Accuracy([["a b", "c d", "e f"]])
        >>> result = paired_bootstrap(metric, ["a b", "c d", "e"], ["a b", "c", "e"])
        >>> round(result.difference, 2)
        33.33
    """
    ours, theirs = metric.statistics(system), metric.statistics(baseline)
    return bootstrap_statistics([ours], [theirs], metric.total_score, resamples, seed)


def text_lines(text: TextSource) -> list[str]:
    """Return the lines of a text, which may be a file."""
    if isinstance(text, str):
        raise TypeError("A text is a list of lines or a `Path`, not a string.")
    return list(read_lines(text) if isinstance(text, Path) else text)


def read_gold(gold: str | Path | Iterable[M2Sentence]) -> tuple[str, list[M2Sentence]]:
    """Return what messages call the gold sentences, and the sentences."""
    if isinstance(gold, str | Path):
        return str(gold), list(read_m2(Path(gold)))
    return "the gold edits", list(gold)


def text_label(text: object, default: str) -> str:
    """Return what messages call a text: the path of a file."""
    return str(text) if isinstance(text, Path) else default


def check_lengths(name: object, count: int, other: object, other_count: int) -> None:
    """Raise an error if two parallel texts have different numbers of lines."""
    if count != other_count:
        raise DataError(
            f"{name} has {count} lines and {other} {other_count}. Parallel files must have equally "
            "many lines."
        )
