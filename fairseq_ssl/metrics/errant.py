"""ERRANT (Bryant et al., 2017): F of edits that rules extract and type by parts of speech.

The package errant extracts the edits with a spaCy pipeline. The counts are those of its command
``errant_compare`` for span-based correction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError, MissingPackageError, import_optional
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.metrics.metric import (
    HYPOTHESES,
    EditMetric,
    MetricScore,
    SentenceStatistics,
    TextSource,
    check_lengths,
    read_gold,
    text_label,
    text_lines,
)
from fairseq_ssl.text.m2 import NO_CORRECTION, M2Edit, M2Sentence, read_m2

MODEL = "en_core_web_sm"
UNKNOWN_TYPE = "UNK"
"""Type of an error that an annotator marked and did not correct."""
UNTYPED = "NA"
PURPOSE = "Extracting edits by ERRANT"

TypeTotals = tuple[int, int, int]
"""Numbers of edits: true positives, false positives, false negatives."""


@dataclass(frozen=True)
class TypedCounts:
    """Numbers of edits of a sentence or of a corpus, by type."""

    correct: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def totals(self) -> TypeTotals:
        """Return the counts of all types."""
        return self.correct.total(), self.wrong.total(), self.missing.total()

    def of(self, kind: str) -> TypeTotals:
        """Return the counts of a type."""
        return self.correct[kind], self.wrong[kind], self.missing[kind]


class Annotator:
    """Extraction of the edits between two sentences.

    Args:
        model: name or folder of a spaCy pipeline, or None for a blank pipeline. A blank pipeline
            has no parts of speech, so it merges some edits differently, and edits have no types.
    """

    def __init__(self, model: str | None) -> None:
        errant, spacy = (import_optional(name, PURPOSE, "gec") for name in ("errant", "spacy"))
        self.typed = model is not None
        pipeline = _pipeline(spacy, model) if model is not None else spacy.blank("en")
        self._errant: Any = errant.load("en", pipeline)

    def edits(self, source: str, corrected: str) -> list[M2Edit]:
        """Return the edits in the order of the source."""
        if source.split() == corrected.split():
            return []
        before, after = self._errant.parse(source), self._errant.parse(corrected)
        if self.typed:
            edits = self._errant.annotate(before, after)
        else:
            edits = self._errant.merge(self._errant.align(before, after))
        return [_m2_edit(edit, self.typed) for edit in edits]

    def sentence(self, source: str, corrected: Sequence[str], line: int = 0) -> M2Sentence:
        """Return a sentence with one annotator for each of its corrections."""
        annotators = {number: self.edits(source, text) for number, text in enumerate(corrected)}
        return M2Sentence(tuple(source.split()), annotators, line)


def packages() -> str:
    """Return names and versions of the packages, for a signature."""
    return f"errant-{version('errant')},spacy-{version('spacy')}"


def compare_edits(edits: Sequence[M2Edit], gold: Sequence[M2Edit]) -> TypedCounts:
    """Count the edits of a system against the edits of an annotator.

    Correct and missing edits have the type of the annotator's edit.
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
    """Choose the annotator of each sentence that maximizes F of all sentences so far.

    As in errant, F is rounded to four digits. Ties go to more correct edits, then to fewer
    wrong edits, then to fewer missing edits, then to the first annotator.
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
    """Return precision, recall and F of numbers of edits: correct, wrong, missing."""
    correct, wrong, missing = counts
    precision = correct / (correct + wrong) if wrong else 1.0
    recall = correct / (correct + missing) if missing else 1.0
    below = beta * beta * precision + recall
    return precision, recall, (1 + beta * beta) * precision * recall / below if below else 0.0


def operation(kind: str) -> str:
    """Return the operation of a type, R for R:NOUN:NUM. A type without operation is unchanged."""
    return kind[0] if kind[1:2] == ":" else kind


def main_type(kind: str) -> str:
    """Return a type without its operation, NOUN:NUM for R:NOUN:NUM."""
    return kind[2:] if kind[1:2] == ":" else kind


def full_type(kind: str) -> str:
    """Return a type with its operation, as in M2 files."""
    return kind


TIERS: dict[str, Callable[[str], str]] = {
    "operation": operation,
    "type": main_type,
    "full-type": full_type,
}
"""Category of a type in each tier, as in ``errant_compare -cat 1``, ``2`` and ``3``."""


def count_categories(counts: Iterable[TypedCounts], tier: str) -> dict[str, TypeTotals]:
    """Sum the counts of a corpus by category.

    Args:
        counts: counts of each sentence
        tier: a name of `TIERS`

    Returns:
        the counts by category, most frequent in the gold edits first
    """
    category, total = TIERS[tier], TypedCounts()
    for sentence in counts:
        for ours, part in zip(_parts(total), _parts(sentence), strict=True):
            for kind, count in part.items():
                ours[category(kind)] += count
    gold = total.correct + total.missing
    kinds = sorted({*gold, *total.wrong}, key=lambda kind: (-gold[kind], kind))
    return {kind: total.of(kind) for kind in kinds}


def _parts(counts: TypedCounts) -> tuple[Counter[str], ...]:
    return counts.correct, counts.wrong, counts.missing


def _by_span(edits: Sequence[M2Edit]) -> dict[tuple[int, int, str], list[str]]:
    """Return the types by span and correction. Several edits may be equal."""
    types: dict[tuple[int, int, str], list[str]] = {}
    for edit in edits:
        if edit.type != UNKNOWN_TYPE:
            correction = "" if edit.correction == NO_CORRECTION else edit.correction
            types.setdefault((edit.start, edit.end, correction), []).append(edit.type)
    return types


def _m2_edit(edit: Any, typed: bool) -> M2Edit:
    correction = " ".join(token.text for token in edit.c_toks)
    return M2Edit(edit.o_start, edit.o_end, edit.type if typed else UNTYPED, correction)


def _pipeline(spacy: Any, model: str) -> Any:
    try:
        return spacy.load(model, disable=["ner"])
    except OSError as error:
        if Path(model).exists():
            reason = f"a readable spaCy pipeline ({model} is not one)"
        else:
            reason = model
        raise MissingPackageError(
            reason,
            "Typing errors by ERRANT",
            f"python -m spacy download {MODEL}; or set `model` to the folder of a pipeline, or "
            "`untyped` to score without types",
        ) from error


class Errant(EditMetric):
    """F of edits by ERRANT, span-based correction as in ``errant_compare`` (Bryant et al., 2017).

    Args:
        gold: the path of an M2 file, or its sentences
        model: name or folder of a spaCy pipeline, for the edits of hypotheses
        untyped: use a blank pipeline. It merges some edits differently, so such scores only
            compare with each other, and edits have no types.
        beta: weight of recall against precision, above 0
        jobs: number of processes, 1 or more
        progress: reports scored sentences

    Example:
        >>> metric = Errant.from_references(["a cat sit ."], [["a cat sits ."]], untyped=True)
        >>> print(metric.corpus_score(["a cat sits ."]))
        F_0.5 = 100.00 (Precision = 100.00 Recall = 100.00)
    """

    method = "errant"

    def __init__(
        self,
        gold: str | Path | Iterable[M2Sentence],
        model: str = MODEL,
        untyped: bool = False,
        beta: float = 0.5,
        jobs: int = 1,
        progress: ProgressFactory = silent_progress,
    ) -> None:
        super().__init__(beta, jobs, progress)
        self._label, self.gold = read_gold(gold)
        self._model = None if untyped else model
        self._is_extracting = False

    @classmethod
    def from_references(
        cls, sources: TextSource, references: Sequence[TextSource], **options: Any
    ) -> Errant:
        """Return the metric with gold edits extracted from one reference or more.

        Args:
            sources: the uncorrected text
            references: one text for each annotator
            options: options of the metric
        """
        metric = cls([], **options)
        lines, metric._label = text_lines(sources), text_label(sources, "the sources")
        texts = [text_lines(reference) for reference in references]
        for reference, text in zip(references, texts, strict=True):
            name = text_label(reference, "a reference")
            check_lengths(name, len(text), metric._label, len(lines))
        pairs = list(zip(lines, zip(*texts, strict=True), strict=True))
        metric.gold = metric._annotate(pairs, "references")
        return metric

    def sentence_score(self, hypothesis: str, index: int = 0) -> MetricScore:
        """Return the score of the hypothesis for the gold sentence `index`."""
        gold = self.gold[index]
        edits = self._annotate([(" ".join(gold.words), (hypothesis,))], HYPOTHESES)
        counts = self._compare([edits[0].annotators[0]], [gold])
        return MetricScore(self.name, self.values(edit_statistics(counts)))

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the numbers of edits of each hypothesis: correct, wrong, missing."""
        return edit_statistics(self.typed_counts(hypotheses, label))

    def typed_counts(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> list[TypedCounts]:
        """Return the numbers of edits of each hypothesis, by type."""
        check_lengths(self._label, len(self.gold), label, len(hypotheses))
        pairs: list[tuple[str, tuple[str, ...]]] = [
            (" ".join(gold.words), (line,))
            for gold, line in zip(self.gold, hypotheses, strict=True)
        ]
        edits = [sentence.annotators[0] for sentence in self._annotate(pairs, label)]
        return self._compare(edits, self.gold)

    def typed_counts_of_file(self, path: Path) -> list[TypedCounts]:
        """Return the numbers of edits of a system, which an M2 file has, by type."""
        sentences = list(read_m2(path))
        check_lengths(self._label, len(self.gold), path, len(sentences))
        for sentence, gold in zip(sentences, self.gold, strict=True):
            if sentence.words != gold.words or len(sentence.annotators) > 1:
                raise DataError(
                    f"{path}:{sentence.line} is not the sentence of {self._label}, or has several "
                    "annotators. Expected the same sources, and the edits of one system."
                )
        edits = [next(iter(sentence.annotators.values())) for sentence in sentences]
        return self._compare(edits, self.gold)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return precision, recall and F."""
        return self._named(errant_scores(rows.sum(0).tolist(), self.beta))

    def parameters(self) -> dict[str, Any]:
        """Return the number of annotators, and how the edits were extracted."""
        annotators = max(len(sentence.annotators) for sentence in self.gold)
        parameters = {**super().parameters(), "annotators": annotators}
        if not self._is_extracting:
            return {**parameters, "edits": "from m2"}
        edits = self._model or "blank pipeline, untyped"
        return {**parameters, "edits": edits, "by": packages()}

    def _compare(
        self, edits: Sequence[Sequence[M2Edit]], gold: Sequence[M2Sentence]
    ) -> list[TypedCounts]:
        """Count edits against the best annotator of each sentence."""
        choices = [
            [compare_edits(ours, theirs) for theirs in sentence.annotators.values()]
            for ours, sentence in zip(edits, gold, strict=True)
        ]
        return choose_annotator(choices, self.beta)

    def _annotate(self, pairs: list[tuple[str, tuple[str, ...]]], label: str) -> list[M2Sentence]:
        self._is_extracting = True
        load_annotator(self._model)  # here too, so that a missing model is reported before work
        return self._map(_AnnotateBlock(self._model), pairs, label)


@dataclass(frozen=True)
class _AnnotateBlock:
    """Annotation of a block of sentences in a process, which loads the pipeline once."""

    model: str | None

    def __call__(self, block: list[tuple[str, tuple[str, ...]]]) -> list[M2Sentence]:
        annotator = load_annotator(self.model)
        return [annotator.sentence(source, corrected) for source, corrected in block]


@lru_cache(maxsize=1)
def load_annotator(model: str | None) -> Annotator:
    """Return the annotator of a pipeline, loaded once in each process."""
    return Annotator(model)


def edit_statistics(counts: Iterable[TypedCounts]) -> SentenceStatistics:
    """Return the counts of all types of each sentence, [sentences, 3]."""
    return np.array([each.totals() for each in counts], dtype=np.float64)
