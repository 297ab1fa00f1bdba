"""ERRANT (Bryant et al., 2017): F score of automatically extracted and classified edits.

Counts are the same as in ``errant_compare`` for span-based correction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.metrics.edit_extraction import (
    AnnotatedPair,
    annotate_block,
    load_annotator,
    packages,
)
from fairseq_ssl.metrics.metric import (
    HYPOTHESES,
    EditMetric,
    MetricScore,
    SentenceStatistics,
    TextSource,
    check_hypotheses,
    check_lengths,
    f_scores,
    text_label,
    text_lines,
)
from fairseq_ssl.text.m2 import (
    NO_CORRECTION,
    SPACY_MODEL,
    M2Edit,
    M2Sentence,
    main_type,
    operation,
    read_m2,
)

UNKNOWN_TYPE = "UNK"
"""Type of errors that an annotator marked but did not correct."""

TypeTotals = tuple[int, int, int]
"""Edit counts: true positives, false positives, false negatives."""


@dataclass(frozen=True)
class TypedCounts:
    """Edit counts for a sentence or a corpus, by error type."""

    correct: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def totals(self) -> TypeTotals:
        """Return the numbers of correct, wrong and missing edits, summed over all types."""
        return self.correct.total(), self.wrong.total(), self.missing.total()


def compare_edits(edits: Sequence[M2Edit], gold: Sequence[M2Edit]) -> TypedCounts:
    """Compare the edits of a system with the edits of an annotator.

    Correct and missing edits are counted under the annotator's type, wrong edits under the
    system's type. Edits of the type UNK are ignored.
    """
    ours, theirs = _by_span(edits), _by_span(gold)
    counts = TypedCounts()
    for edit, types in ours.items():
        if edit in theirs:
            counts.correct.update(theirs[edit])
        else:
            counts.wrong.update(types)
    for edit, types in theirs.items():
        if edit not in ours:
            counts.missing.update(types)
    return counts


def choose_annotator(
    choices: Iterable[Sequence[TypedCounts]], beta: float = 0.5
) -> list[TypedCounts]:
    """Return each sentence's counts against the annotator whose edits maximize the F score.

    The F score is computed over all sentences up to and including the current sentence.

    As in errant, the score is rounded to four digits. Ties are broken by more correct edits, then
    fewer wrong edits, then fewer missing edits, then the order of the annotators.
    """
    total, counts = (0, 0, 0), []
    for sentence in choices:
        best, key = sentence[0], (-1.0, 0, 0, 0)
        for choice in sentence:
            correct, wrong, missing = choice.totals()
            so_far = (total[0] + correct, total[1] + wrong, total[2] + missing)
            here = (round(errant_scores(so_far, beta)[2], 4), correct, -wrong, -missing)
            if here > key:
                best, key = choice, here
        total = (total[0] + key[1], total[1] - key[2], total[2] - key[3])
        counts.append(best)
    return counts


def errant_scores(counts: Iterable[float], beta: float = 0.5) -> tuple[float, float, float]:
    """Compute precision, recall and F score, 0 to 1, from correct, wrong and missing edits."""
    correct, wrong, missing = counts
    return f_scores(correct, correct + wrong, correct + missing, beta)


TIERS: dict[str, Callable[[str], str]] = {
    "operation": operation,
    "type": main_type,
    "full-type": str,
}
"""Functions from error types to categories, as in ``errant_compare -cat 1``, ``2`` and ``3``."""


def count_categories(counts: Iterable[TypedCounts], tier: str) -> dict[str, TypeTotals]:
    """Sum edit counts over sentences, by category of the error type.

    Args:
        counts: edit counts of each sentence, by error type
        tier: a key of `TIERS`

    Returns:
        Counts by category, sorted by decreasing number of gold edits.
    """
    category = TIERS[tier]
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for sentence in counts:
        for at, part in enumerate((sentence.correct, sentence.wrong, sentence.missing)):
            for kind, count in part.items():
                totals[category(kind)][at] += count
    kinds = sorted(totals, key=lambda kind: (-totals[kind][0] - totals[kind][2], kind))
    return {kind: (totals[kind][0], totals[kind][1], totals[kind][2]) for kind in kinds}


def _by_span(edits: Sequence[M2Edit]) -> dict[tuple[int, int, str], list[str]]:
    """Return edit types by span and correction, without edits of the type UNK."""
    types: dict[tuple[int, int, str], list[str]] = {}
    for edit in edits:
        if edit.type != UNKNOWN_TYPE:
            correction = "" if edit.correction == NO_CORRECTION else edit.correction
            types.setdefault((edit.start, edit.end, correction), []).append(edit.type)
    return types


class Errant(EditMetric):
    """ERRANT F score for span-based correction, as in ``errant_compare`` (Bryant et al., 2017).

    Args:
        gold: path of an M2 file, or its sentences
        model: name or folder of the spaCy pipeline with which edits are extracted
        untyped: whether to use a blank pipeline. Edits then have no types, and some are merged
            differently, so scores with a blank and with a trained pipeline are not comparable.
        beta: weight of recall relative to precision, above 0, up to `MAX_BETA`
        jobs: number of processes, 1 or more
        progress: creates the progress report, which receives the number of processed sentences

    Example:
        >>> metric = Errant.from_references(["a cat sit ."], [["a cat sits ."]], untyped=True)
        >>> print(metric.corpus_score(["a cat sits ."]))
        F_0.5 = 100.00 (Precision = 100.00 Recall = 100.00)
    """

    method = "errant"

    def __init__(
        self,
        gold: str | Path | Iterable[M2Sentence],
        model: str = SPACY_MODEL,
        untyped: bool = False,
        beta: float = 0.5,
        jobs: int = 1,
        progress: ProgressFactory = silent_progress,
    ) -> None:
        super().__init__(gold, beta, jobs, progress)
        self._model = None if untyped else model
        self._is_extracting = False

    @classmethod
    def from_references(
        cls, sources: TextSource, references: Sequence[TextSource], **options: Any
    ) -> Errant:
        """Create the metric with gold edits extracted from references.

        Args:
            sources: uncorrected text
            references: one corrected text per annotator
            options: other constructor arguments
        """
        metric = cls([], **options)
        if not references:
            raise UsageError("ERRANT needs references. Set `references`.")
        metric._label = text_label(sources, "the sources")
        lines = text_lines(sources, metric._label)
        names = [text_label(reference, "a reference") for reference in references]
        texts = [text_lines(*pair) for pair in zip(references, names, strict=True)]
        for name, text in zip(names, texts, strict=True):
            check_lengths(name, len(text), metric._label, len(lines))
        pairs = list(zip(lines, zip(*texts, strict=True), strict=True))
        metric.gold = metric._annotate(pairs, "references")
        return metric

    def sentence_score(self, hypothesis: str, index: int = 0) -> MetricScore:
        """Score a hypothesis against the gold sentence at `index`."""
        gold = self.gold[index]
        edits = self._annotate([(" ".join(gold.words), (hypothesis,))], HYPOTHESES)
        counts = self._compare([edits[0].annotators[0]], [gold])
        return MetricScore(self.name, self.values(edit_statistics(counts)))

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the numbers of correct, wrong and missing edits per hypothesis, [sentences, 3]."""
        return edit_statistics(self.typed_counts_of_systems({label: hypotheses})[label])

    def typed_counts_of_systems(
        self, systems: Mapping[str, Sequence[str]]
    ) -> dict[str, list[TypedCounts]]:
        """Return the edit counts by error type for each hypothesis, keyed by system label.

        A sentence that several systems share is parsed only once.
        """
        for label, hypotheses in systems.items():
            check_hypotheses(hypotheses, label, self._label, len(self.gold))
        if not systems:
            return {}
        sources = [" ".join(gold.words) for gold in self.gold]
        pairs = list(zip(sources, zip(*systems.values(), strict=True), strict=True))
        label = next(iter(systems)) if len(systems) == 1 else HYPOTHESES
        annotated = self._annotate(pairs, label)
        return {
            label: self._compare([sentence.annotators[number] for sentence in annotated], self.gold)
            for number, label in enumerate(systems)
        }

    def typed_counts_of_file(self, path: str | Path) -> list[TypedCounts]:
        """Return the edit counts by error type for each sentence of an M2 file.

        The file must contain the gold sources and the edits of one system.
        """
        sentences = list(read_m2(path))
        check_lengths(self._label, len(self.gold), path, len(sentences))
        for sentence, gold in zip(sentences, self.gold, strict=True):
            if sentence.words != gold.words or len(sentence.annotators) > 1:
                raise DataError(
                    f"{path}:{sentence.line} differs from the source in {self._label}, or contains "
                    "several annotators. Expected the same sources and the edits of one system."
                )
        if not sentences:
            raise DataError(f"{path} is empty. Expected the sentences of {self._label}.")
        edits = [next(iter(sentence.annotators.values())) for sentence in sentences]
        return self._compare(edits, self.gold)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the precision, recall and F score of a corpus in percent, by name."""
        return self._named(errant_scores(rows.sum(0).tolist(), self.beta))

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters: beta, annotators, and how edits are extracted."""
        parameters = super().parameters()
        if not self._is_extracting:
            return {**parameters, "edits": "from m2"}
        edits = self._model or "blank pipeline, untyped"
        return {**parameters, "edits": edits, "by": packages()}

    def _compare(
        self, edits: Sequence[Sequence[M2Edit]], gold: Sequence[M2Sentence]
    ) -> list[TypedCounts]:
        """Compare edits with the best annotator's edits. Return the counts for each sentence."""
        choices = [
            [compare_edits(ours, theirs) for theirs in sentence.annotators.values()]
            for ours, sentence in zip(edits, gold, strict=True)
        ]
        return choose_annotator(choices, self.beta)

    def _annotate(self, pairs: list[tuple[str, tuple[str, ...]]], label: str) -> list[M2Sentence]:
        self._is_extracting = True
        load_annotator(self._model)  # fail before starting workers if the model is missing
        work: list[AnnotatedPair] = [(*pair, 0) for pair in pairs]
        return self._map(partial(annotate_block, self._model), work, label)


def edit_statistics(counts: Iterable[TypedCounts]) -> SentenceStatistics:
    """Return the numbers of correct, wrong and missing edits over all types, [sentences, 3]."""
    return np.array([sentence.totals() for sentence in counts], dtype=np.float64)
