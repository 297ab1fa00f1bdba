"""Coverage of a corpus by an edit dictionary, and agreement of predicted with reference edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import Extracted

EDIT_KINDS = ("delete", "append", "replace", "suffix", "case")
BETA_SQUARED = 0.25
"""Of F0.5."""


@dataclass
class Coverage:
    """Counts over pairs; those of the parts of a corpus add up to those of the whole.

    An edit is a source token, or the start, that is not just kept.
    """

    pairs: int = 0
    incomparable: int = 0
    """Pairs too long and too different; they are in no other number but `pairs`."""
    unchanged: int = 0
    """Pairs whose sides are equal."""
    exact: int = 0
    """Pairs whose target the labels give back, the unchanged ones among them."""
    tokens: int = 0
    """Source tokens, and the start of each pair."""
    kept: Counter[str] = field(default_factory=Counter)
    """Edits that have a label, by their kind."""
    lost: Counter[str] = field(default_factory=Counter)
    """Edits that have none, by their kind and why."""

    def add(self, dictionary: EditDictionary, found: Extracted | None) -> None:
        """Count one more pair."""
        self.pairs += 1
        if found is None:
            self.incomparable += 1
            return
        self.tokens += len(found.ids)
        self.unchanged += not found.changes
        exact = True
        for change in found.changes:
            label = found.ids[change.place]
            if label:
                self.kept[dictionary.kinds[label]] += 1
                continue
            exact = False
            kind = "append" if change.kept else "replace"
            why = "too long" if len(change.inserted) > dictionary.longest else "not listed"
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
        """How many there are, with a label or without."""
        return self.kept.total() + self.lost.total()

    @property
    def recall(self) -> float:
        """The share of the edits that have a label."""
        return _share(self.kept.total(), self.edits)

    @property
    def f05(self) -> float:
        """F0.5 of a model that finds every edit it has a label for, and makes no other."""
        return (1 + BETA_SQUARED) * self.recall / (BETA_SQUARED + self.recall)

    @property
    def token_accuracy(self) -> float:
        """The share of the tokens whose label does what the pair asks for."""
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
        """Return what a reader wants to know, as lines of text."""
        kinds = ", ".join(f"{kind} {self.kept[kind]}" for kind in EDIT_KINDS)
        lost = ", ".join(f"{kind} {count}" for kind, count in sorted(self.lost.items()))
        compared = self.pairs - self.incomparable
        left_out = f", {self.incomparable} too long and too different" if self.incomparable else ""
        return [
            f"pairs           {self.pairs}{left_out}",
            f"unchanged       {_percent(self.unchanged, self.pairs)} of the pairs",
            f"exact           {_percent(self.exact, self.pairs)} of the pairs, unchanged or not",
            f"tokens          {_percent(self.tokens - self.lost.total(), self.tokens)} with the "
            f"right label, of {self.tokens} in {compared} pairs, each with a start",
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
"""The place, whether the token there stays, and what is put in."""


@dataclass(frozen=True)
class Agreement:
    """Counts over sentences."""

    sentences: int
    exact: int
    """Sentences that are as they should be."""
    wanted: int
    made: int
    right: int
    """Edits that were made and are wanted."""

    @property
    def scores(self) -> dict[str, float]:
        """All scores in percent; F0.5 is 100 where no edit is wanted and none is made."""
        beta = 1 + BETA_SQUARED
        return {
            "exact": _agreement_percent(self.exact, self.sentences),
            "precision": _agreement_percent(self.right, self.made),
            "recall": _agreement_percent(self.right, self.wanted),
            "f0.5": _agreement_percent(beta * self.right, self.made + BETA_SQUARED * self.wanted),
        }


def agreement(sentences: Iterable[tuple[str, str, str]]) -> Agreement:
    """Compare the edits from each source to what was made of it, and to what it should be.

    Args:
        sentences: source, made and wanted, tokens between spaces
    """
    counts = [0] * 5
    for source, made, wanted in sentences:
        is_exact = made.split() == wanted.split()
        asked = _edits(source, wanted)
        done = asked if is_exact else _edits(source, made)
        found = (1, is_exact, len(asked), len(done), len(asked & done))
        counts = [before + one for before, one in zip(counts, found, strict=True)]
    return Agreement(*counts)


def _edits(source: str, target: str) -> set[SpanEdit]:
    """Return the edits; one of all tokens where the sides are too long and too different."""
    found = align_tokens(source.split(), target.split())
    if found is None:
        return {(0, False, tuple(target.split()))}
    return {(change.place, change.kept, change.inserted) for change in found}


def _agreement_percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 100.0
