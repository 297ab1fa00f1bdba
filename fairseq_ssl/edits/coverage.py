"""Coverage of a corpus by an edit dictionary, and agreement of predicted with reference edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import ExtractedLabels

EDIT_KINDS = ("delete", "append", "replace", "suffix", "case")
BETA_SQUARED = 0.25
"""Of F0.5."""


@dataclass
class Coverage:
    """Counts of pairs, tokens and edits. Counts of parts of a corpus can be added.

    An edit is a source token, or the start of the sentence, that is not kept unchanged.
    """

    pairs: int = 0
    incomparable: int = 0
    """Pairs too long and too different to align. Only `pairs` includes them."""
    unchanged: int = 0
    """Pairs with equal sides."""
    exact: int = 0
    """Pairs whose labels restore the target, with the unchanged pairs."""
    tokens: int = 0
    """Source tokens, with the start of each sentence."""
    kept: Counter[str] = field(default_factory=Counter)
    """Edits with a label, by kind."""
    lost: Counter[str] = field(default_factory=Counter)
    """Edits without a label, by kind and reason."""

    def add(self, dictionary: EditDictionary, found: ExtractedLabels | None) -> None:
        """Count a pair."""
        self.pairs += 1
        if found is None:
            self.incomparable += 1
            return
        self.tokens += len(found.ids)
        self.unchanged += not found.changes
        exact = True
        for change in found.changes:
            label = found.ids[change.position]
            if label:
                self.kept[dictionary.kinds[label]] += 1
                continue
            exact = False
            kind = "append" if change.kept else "replace"
            why = "too long" if len(change.inserted) > dictionary.max_ngram else "not listed"
            self.lost[f"{kind}, {why}"] += 1
        self.exact += exact

    def update(self, other: Coverage) -> None:
        """Add the counts of another part of the corpus."""
        self.pairs += other.pairs
        self.incomparable += other.incomparable
        self.unchanged += other.unchanged
        self.exact += other.exact
        self.tokens += other.tokens
        self.kept.update(other.kept)
        self.lost.update(other.lost)

    @property
    def edits(self) -> int:
        """Edits with and without a label."""
        return self.kept.total() + self.lost.total()

    @property
    def recall(self) -> float:
        """Share of the edits with a label."""
        return _share(self.kept.total(), self.edits)

    @property
    def f05(self) -> float:
        """F0.5 of a model that finds every edit with a label, and no other."""
        return (1 + BETA_SQUARED) * self.recall / (BETA_SQUARED + self.recall)

    @property
    def token_accuracy(self) -> float:
        """Share of the tokens with the correct label."""
        return _share(self.tokens - self.lost.total(), self.tokens)

    def report(self) -> dict[str, Any]:
        """Return all numbers."""
        return {
            "pairs": self.pairs,
            "incomparable_pairs": self.incomparable,
            "unchanged_pairs": self.unchanged,
            "exact_pairs": self.exact,
            "exact_share": _share(self.exact, self.pairs),
            "tokens": self.tokens,
            "token_accuracy": self.token_accuracy,
            "edits": self.edits,
            "edits_with_label": self.kept.total(),
            "recall": self.recall,
            "f0.5": self.f05,
            "with_label": {kind: self.kept[kind] for kind in EDIT_KINDS},
            "without_label": dict(sorted(self.lost.items())),
        }

    def lines(self) -> list[str]:
        """Return a table as lines of text."""
        kinds = ", ".join(f"{kind} {self.kept[kind]}" for kind in EDIT_KINDS)
        lost = ", ".join(f"{kind} {count}" for kind, count in sorted(self.lost.items()))
        compared = self.pairs - self.incomparable
        left_out = f", {self.incomparable} too long and too different" if self.incomparable else ""
        return [
            f"pairs           {self.pairs}{left_out}",
            f"unchanged       {_percent(self.unchanged, self.pairs)} of the pairs",
            f"exact           {_percent(self.exact, self.pairs)} of the pairs, unchanged or not",
            f"tokens          {_percent(self.tokens - self.lost.total(), self.tokens)} with the "
            f"correct label, of {self.tokens} in {compared} pairs, each with a start",
            f"edits           {_percent(self.kept.total(), self.edits)} have a label, of "
            f"{self.edits}",
            f"with label      {kinds}",
            f"without label   {lost or 'none'}",
            f"ceiling         F0.5 {100 * self.f05:.2f}, token accuracy "
            f"{100 * self.token_accuracy:.2f}, exact {_percent(self.exact, self.pairs)}",
        ]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _percent(part: int, whole: int) -> str:
    return f"{100 * _share(part, whole):.2f}%"


SpanEdit = tuple[int, bool, tuple[str, ...]]
"""Position, whether the token is kept, and the inserted tokens."""


@dataclass(frozen=True)
class Agreement:
    """Predicted edits compared with reference edits."""

    sentences: int
    exact: int
    """Sentences equal to the reference."""
    reference: int
    """Edits of the references."""
    predicted: int
    correct: int
    """Predicted edits that are reference edits."""

    @property
    def scores(self) -> dict[str, float]:
        """Scores in percent. F0.5 is 100 if no edit is predicted or expected."""
        beta = 1 + BETA_SQUARED
        return {
            "exact": _agreement_percent(self.exact, self.sentences),
            "precision": _agreement_percent(self.correct, self.predicted),
            "recall": _agreement_percent(self.correct, self.reference),
            "f0.5": _agreement_percent(
                beta * self.correct, self.predicted + BETA_SQUARED * self.reference
            ),
        }


def agreement(sentences: Iterable[tuple[str, str, str]]) -> Agreement:
    """Compare the edits from each source to its prediction and to its reference.

    Args:
        sentences: source, prediction and reference, tokens separated by spaces
    """
    counts = [0] * 5
    for source, predicted, reference in sentences:
        is_exact = predicted.split() == reference.split()
        asked = _edits(source, reference)
        done = asked if is_exact else _edits(source, predicted)
        found = (1, is_exact, len(asked), len(done), len(asked & done))
        counts = [before + one for before, one in zip(counts, found, strict=True)]
    return Agreement(*counts)


def _edits(source: str, target: str) -> set[SpanEdit]:
    """Return the edits, or one edit of all tokens if the sides are too long and too different."""
    found = align_tokens(source.split(), target.split())
    if found is None:
        return {(0, False, tuple(target.split()))}
    return {(change.position, change.kept, change.inserted) for change in found}


def _agreement_percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 100.0
