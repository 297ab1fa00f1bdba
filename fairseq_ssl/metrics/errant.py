"""ERRANT (Bryant et al., 2017): edits found by rules and typed by parts of speech, and their F.

Edits come from the package errant over a pipeline of spaCy; the counts are those of its command
``errant_compare``, of corrections by their span.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import MissingPackageError, import_optional
from fairseq_ssl.text.m2 import NOTHING, M2Edit, M2Sentence

MODEL = "en_core_web_sm"
UNKNOWN_TYPE = "UNK"
"""The type of what an annotator marked, but did not correct."""
UNTYPED = "NA"
PURPOSE = "Finding edits by ERRANT"

TypeTotals = tuple[int, int, int]
"""Edits that are right, that are wrong, and that are missing."""


@dataclass(frozen=True)
class TypedCounts:
    """Edits of a sentence, or of a corpus."""

    right: Counter[str] = field(default_factory=Counter)
    """By type."""
    wrong: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def totals(self) -> TypeTotals:
        """Return the counts of all types."""
        return self.right.total(), self.wrong.total(), self.missing.total()

    def of(self, kind: str) -> TypeTotals:
        """Return the counts of a type."""
        return self.right[kind], self.wrong[kind], self.missing[kind]


class Annotator:
    """Finds the edits between two sentences.

    Args:
        model: name of an installed spaCy pipeline, or the folder of one; None: a blank pipeline,
            which splits words and no more, so that edits are merged without knowing parts of
            speech and have no types
    """

    def __init__(self, model: str | None) -> None:
        errant, spacy = (import_optional(name, PURPOSE, "gec") for name in ("errant", "spacy"))
        self.typed = model is not None
        pipeline = _pipeline(spacy, model) if model is not None else spacy.blank("en")
        self._errant: Any = errant.load("en", pipeline)

    def edits(self, source: str, corrected: str) -> list[M2Edit]:
        """Return what was corrected, in the order of the source."""
        if source.split() == corrected.split():
            return []
        before, after = self._errant.parse(source), self._errant.parse(corrected)
        if self.typed:
            found = self._errant.annotate(before, after)
        else:
            found = self._errant.merge(self._errant.align(before, after))
        return [_m2_edit(edit, self.typed) for edit in found]

    def sentence(self, source: str, corrected: Sequence[str], line: int = 0) -> M2Sentence:
        """Return the block of a sentence, an annotator for each of its corrections."""
        annotators = {number: self.edits(source, text) for number, text in enumerate(corrected)}
        return M2Sentence(tuple(source.split()), annotators, line)


def packages() -> str:
    """Return names and versions of what finds the edits, for a signature."""
    return f"errant-{version('errant')},spacy-{version('spacy')}"


def compared(found: Sequence[M2Edit], wanted: Sequence[M2Edit]) -> TypedCounts:
    """Count the edits of a system against those of an annotator.

    Edits that are right or missing have the type that the annotator gives them.
    """
    ours, theirs = _by_span(found), _by_span(wanted)
    counts = TypedCounts()
    for edit, types in ours.items():
        if edit in theirs:
            counts.right.update(theirs[edit])
        else:
            counts.wrong.update(types)
    for edit, types in theirs.items():
        if edit not in ours:
            counts.missing.update(types)
    return counts


def choose_annotator(
    choices: Iterable[Sequence[TypedCounts]], beta: float = 0.5
) -> list[TypedCounts]:
    """Choose an annotator for each sentence: who makes F of all sentences so far the highest.

    As errant does it: F is rounded to four digits, and among equals the one with more edits right,
    then fewer wrong, then fewer missing is taken, then the first.
    """
    total, counts = (0, 0, 0), []
    for sentence in choices:
        best, key = sentence[0], (-1.0, 0, 0, 0)
        for choice in sentence:
            right, wrong, missing = choice.totals()
            so_far = (total[0] + right, total[1] + wrong, total[2] + missing)
            here = (round(errant_scores(so_far, beta)[2], 4), right, -wrong, -missing)
            if here > key:
                best, key = choice, here
        total = (total[0] + key[1], total[1] - key[2], total[2] - key[3])
        counts.append(best)
    return counts


def errant_scores(counts: Iterable[float], beta: float = 0.5) -> tuple[float, float, float]:
    """Return precision, recall and F of edits that are right, wrong and missing."""
    right, wrong, missing = counts
    precision = right / (right + wrong) if wrong else 1.0
    recall = right / (right + missing) if missing else 1.0
    below = beta * beta * precision + recall
    return precision, recall, (1 + beta * beta) * precision * recall / below if below else 0.0


def operation(kind: str) -> str:
    """Return the operation of a type: of R:NOUN:NUM, R. One that has none stays as it is."""
    return kind[0] if kind[1:2] == ":" else kind


def main_type(kind: str) -> str:
    """Return a type without its operation: of R:NOUN:NUM, NOUN:NUM."""
    return kind[2:] if kind[1:2] == ":" else kind


def full_type(kind: str) -> str:
    """Return a type with its operation, which is how m2 files have it."""
    return kind


TIERS: dict[str, Callable[[str], str]] = {
    "operation": operation,
    "type": main_type,
    "full-type": full_type,
}
"""The categories of errors by their tier: what ``errant_compare -cat 1``, ``2`` and ``3`` show."""


def by_category(counts: Iterable[TypedCounts], tier: str) -> dict[str, TypeTotals]:
    """Add up the counts of a corpus by category.

    Args:
        counts: counts of its sentences
        tier: a name of `TIERS`

    Returns:
        counts by category, the most frequent ones in the gold edits first
    """
    category, total = TIERS[tier], TypedCounts()
    for sentence in counts:
        for ours, part in zip(_parts(total), _parts(sentence), strict=True):
            for kind, count in part.items():
                ours[category(kind)] += count
    wanted = total.right + total.missing
    kinds = sorted({*wanted, *total.wrong}, key=lambda kind: (-wanted[kind], kind))
    return {kind: total.of(kind) for kind in kinds}


def _parts(counts: TypedCounts) -> tuple[Counter[str], ...]:
    return counts.right, counts.wrong, counts.missing


def _by_span(edits: Sequence[M2Edit]) -> dict[tuple[int, int, str], list[str]]:
    """Return by span and correction the types; several edits may be the same."""
    found: dict[tuple[int, int, str], list[str]] = {}
    for edit in edits:
        if edit.type != UNKNOWN_TYPE:
            correction = "" if edit.correction == NOTHING else edit.correction
            found.setdefault((edit.start, edit.end, correction), []).append(edit.type)
    return found


def _m2_edit(edit: Any, typed: bool) -> M2Edit:
    correction = " ".join(token.text for token in edit.c_toks)
    return M2Edit(edit.o_start, edit.o_end, edit.type if typed else UNTYPED, correction)


def _pipeline(spacy: Any, model: str) -> Any:
    try:
        return spacy.load(model, disable=["ner"])
    except OSError as error:
        if Path(model).exists():
            reason = f"a spaCy pipeline that can be read ({model} is none)"
        else:
            reason = model
        raise MissingPackageError(
            reason,
            "Typing errors by ERRANT",
            f"python -m spacy download {MODEL}; or pass the folder of a pipeline by --model, or "
            "score without types by --untyped",
        ) from error
