"""GLEU for grammatical error correction (Napoles et al., 2015), 2016 version."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.metrics.metric import (
    HYPOTHESES,
    MetricScore,
    ReferenceMetric,
    SentenceStatistics,
    TextSource,
    check_lengths,
    check_reference_list,
    text_label,
    text_lines,
)

Grams = list[Counter[tuple[str, ...]]]
"""Counts of the n-grams in a sentence, for n = 1 to 4."""
GleuCounts = NDArray[np.float64]
"""Hypothesis length and reference length, then correct and total n-grams for each n from 1 to 4."""

MAX_N = 4
SAMPLES = 500
"""Number of sampling rounds if there are several references."""
OF_SINGLE = "mean of single references"
"""Name of the value that is compared if there are several references (see `total_score`)."""


class Gleu(ReferenceMetric):
    """GLEU for grammatical error correction (Napoles et al., 2015), 2016 version.

    GLEU is BLEU with a penalty: an n-gram that is in the hypothesis and in the source, but not in
    the reference, cancels one correct n-gram. Text must be tokenized. If there are several
    references, each of 500 rounds draws one reference per sentence, with the same seeds as the
    authors' script. The score is the mean over the rounds.

    Args:
        references: one text per annotator (default: passed to each call)
        sources: uncorrected text (default: passed to each call)

    Example:
        >>> metric = Gleu([["a b c d x y"]], ["a b c d e f"])
        >>> print(metric.corpus_score(["a b c d z z"]))
        GLEU = 50.81
        >>> metric.get_signature().parameters
        {'references': 1}
    """

    method = "gleu"
    name = "GLEU"

    def __init__(
        self,
        references: Sequence[TextSource] | None = None,
        sources: TextSource | None = None,
    ) -> None:
        super().__init__(references)
        self._set_sources(sources)

    def corpus_score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[TextSource] | None = None,
        sources: TextSource | None = None,
    ) -> MetricScore:
        """Compute the GLEU of a corpus.

        Args:
            hypotheses: corrected sentences
            references: one text per annotator (default: the metric's references)
            sources: uncorrected text (default: the metric's sources)
        """
        metric = copy(self)
        if sources is not None:
            metric._set_sources(sources)
        score = super(Gleu, metric).corpus_score(hypotheses, references)
        self._scored_references = metric._scored_references
        return score

    def sentence_score(
        self, hypothesis: str, references: Sequence[str], source: str = ""
    ) -> MetricScore:
        """Compute the GLEU of one sentence, averaged over the references.

        As in the authors' script, counts of 0 are replaced with 1. A sentence without 4-grams can
        therefore score 100, and a sentence without correct n-grams scores above 0.
        """
        check_reference_list(references)
        metric = Gleu([[reference] for reference in references], [source])
        return metric._score_sentence(hypothesis)

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the `GleuCounts` of each hypothesis, [sentences, annotators * 10]."""
        self.check_references(hypotheses, label)
        if self.sources is None:
            raise UsageError("GLEU needs the uncorrected text. Set `sources`.")
        check_lengths(self._source_label, len(self.sources), label, len(hypotheses))
        counts = gleu_counts(hypotheses, self.sources, self.references)
        return counts.reshape(len(hypotheses), -1)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the GLEU of a corpus in percent, by name.

        If there are several references, the result includes the standard deviation of GLEU over
        the rounds, and the mean GLEU over single references.
        """
        counts = rows.reshape(len(rows), len(self.references), -1)
        alone = [gleu_of(counts[:, annotator].sum(0)) for annotator in range(counts.shape[1])]
        if len(alone) == 1:
            return {self.name: alone[0]}
        every = np.arange(len(counts))
        scores = [
            gleu_of(counts[every, _draw(sample, *counts.shape[:2])].sum(0))
            for sample in range(SAMPLES)
        ]
        return {
            self.name: float(np.mean(scores)),
            "standard deviation of samples": float(np.std(scores)),
            OF_SINGLE: float(np.mean(alone)),
        }

    @property
    def compared(self) -> str:
        """Name of the value that `total_score` returns, which is used in comparisons."""
        return self.name if len(self.references) == 1 else OF_SINGLE

    def total_score(self, totals: SentenceStatistics) -> float:
        """Compute the mean GLEU over single references from summed counts, [annotators * 10].

        The rounds of `values` cannot be computed from sums.
        """
        counts = totals.reshape(len(self.references), -1)
        return float(np.mean([gleu_of(annotator) for annotator in counts]))

    def sentence_values(self, row: SentenceStatistics) -> dict[str, float]:
        """Return the GLEU of one sentence, averaged over references. Counts of 0 become 1."""
        return {self.name: self.total_score(np.where(row == 0, 1, row))}

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters: the numbers of references and of sampling rounds."""
        samples = {"samples": SAMPLES} if self._scored_references > 1 else {}
        return {**super().parameters(), **samples}

    def _set_sources(self, sources: TextSource | None) -> None:
        self._source_label = text_label(sources, "the sources")
        self.sources = None if sources is None else text_lines(sources, self._source_label)


def gleu_counts(
    hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]
) -> GleuCounts:
    """Return the `GleuCounts` for each sentence and annotator, [sentences, annotators, 10]."""
    counts = np.zeros((len(hypotheses), len(references), 2 + 2 * MAX_N))
    for number, (hypothesis, source) in enumerate(zip(hypotheses, sources, strict=True)):
        ours, before = _grams(hypothesis), _grams(source)
        for annotator, lines in enumerate(references):
            counts[number, annotator] = _match_counts(ours, before, _grams(lines[number]))
    return counts


def _draw(sample: int, lines: int, references: int) -> NDArray[np.int64]:
    """Draw the index of a reference for each line, with the authors' seed for this round."""
    draw = random.Random(101 * sample)
    return np.array([int(draw.random() * references) for _ in range(lines)])


def _grams(line: str) -> Grams:
    words = line.split()
    return [
        Counter(zip(*(words[start:] for start in range(n)), strict=False))
        for n in range(1, MAX_N + 1)
    ]


def _match_counts(output: Grams, source: Grams, reference: Grams) -> list[int]:
    """Return the `GleuCounts` for a sentence and a reference."""
    length = output[0].total()
    counts = [length, reference[0].total()]
    for n, (grams, before, gold) in enumerate(zip(output, source, reference, strict=True)):
        correct = (grams & gold).total()
        kept = sum(min(grams[gram], before[gram]) for gram in before.keys() - gold.keys())
        counts += [max(correct - kept, 0), max(length - n, 0)]
    return counts


def gleu_of(counts: GleuCounts) -> float:
    """Compute GLEU in percent from summed counts [10]. GLEU is 0 if any count is 0."""
    if not counts.all():
        return 0.0
    length, reference_length = counts[:2]
    precision = np.log(counts[2::2] / counts[3::2]).mean()
    return 100 * math.exp(min(0.0, 1 - reference_length / length) + precision)
