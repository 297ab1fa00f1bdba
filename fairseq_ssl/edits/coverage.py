"""Coverage of a corpus by an edit dictionary, and agreement of predicted and reference edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import ExtractedLabels
from fairseq_ssl.edits.transforms import GROUPS

EDIT_KINDS = ("delete", "append", "replace", "suffix", *GROUPS)
NUMBERS = ("pairs", "incomparable", "unchanged", "exact", "tokens")
"""Fields of `Coverage` that contain a single count."""
TABLES = ("kept", "lost")
"""Fields of `Coverage` that contain counts by kind."""
BETA_SQUARED = 0.25
"""Square of beta in F0.5."""


@dataclass
class Coverage:
    """Counts of pairs, tokens and edits in a corpus, and of edits that have a dictionary label.

    An edit is a change at a source token or at the start of a sentence.
    """

    pairs: int = 0
    incomparable: int = 0
    """Pairs that are too long and too different to align. Other counts except `pairs` omit them."""
    unchanged: int = 0
    """Pairs with equal sides."""
    exact: int = 0
    """Pairs whose labels reproduce the target, including unchanged pairs."""
    tokens: int = 0
    """Source tokens, including the start of each sentence."""
    kept: Counter[str] = field(default_factory=Counter)
    """Edits with a label, by kind."""
    lost: Counter[str] = field(default_factory=Counter)
    """Edits without a label, by kind and reason."""

    def add(self, dictionary: EditDictionary, labels: ExtractedLabels | None) -> None:
        """Count a pair. `labels` is None for a pair that cannot be aligned."""
        self.pairs += 1
        if labels is None:
            self.incomparable += 1
            return
        self.tokens += len(labels.ids)
        self.unchanged += not labels.changes
        exact = True
        for change in labels.changes:
            label = labels.ids[change.position]
            if label:
                self.kept[dictionary.kinds[label]] += 1
                continue
            exact = False
            kind = "append" if change.kept else "replace"
            why = "too long" if len(change.inserted) > dictionary.max_ngram else "not listed"
            self.lost[f"{kind}, {why}"] += 1
        self.exact += exact

    def counts(self) -> Counter[str]:
        """Return all counts by name. The counts of several parts of a corpus can be summed."""
        counts = Counter({name: getattr(self, name) for name in NUMBERS})
        for name in TABLES:
            table = getattr(self, name)
            counts.update({f"{name} {kind}": count for kind, count in table.items()})
        return counts

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Coverage:
        """Create a coverage from the output of `counts`, or its sum over the parts of a corpus."""
        coverage = cls()
        for name in NUMBERS:
            setattr(coverage, name, counts.get(name, 0))
        for name, count in counts.items():
            table, _, kind = name.partition(" ")
            if table in TABLES:
                getattr(coverage, table)[kind] = count
        return coverage

    @property
    def edits(self) -> int:
        """Number of edits, with and without a label."""
        return self.kept.total() + self.lost.total()

    @property
    def recall(self) -> float:
        """Fraction of edits that have a label, 0 to 1."""
        return _fraction(self.kept.total(), self.edits)

    @property
    def f05(self) -> float:
        """F0.5 of a model that predicts exactly the edits with a label, 0 to 1."""
        return (1 + BETA_SQUARED) * self.recall / (BETA_SQUARED + self.recall)

    @property
    def token_accuracy(self) -> float:
        """Fraction of tokens that are unchanged or whose edit has a label, 0 to 1."""
        return _fraction(self.tokens - self.lost.total(), self.tokens)

    def report(self) -> dict[str, Any]:
        """Return the counts and scores as a JSON-serializable dict."""
        return {
            "pairs": self.pairs,
            "incomparable_pairs": self.incomparable,
            "unchanged_pairs": self.unchanged,
            "exact_pairs": self.exact,
            "exact_share": _fraction(self.exact, self.pairs),
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
        """Return the counts and scores as the lines of a text table."""
        kinds = ", ".join(f"{kind} {self.kept[kind]}" for kind in EDIT_KINDS if self.kept[kind])
        lost = "; ".join(f"{kind}: {count}" for kind, count in sorted(self.lost.items()))
        compared = self.pairs - self.incomparable
        skipped = f", {self.incomparable} too long and too different" if self.incomparable else ""
        return [
            f"pairs           {self.pairs}{skipped}",
            f"unchanged       {_percent(self.unchanged, self.pairs)} of the pairs",
            f"exact           {_percent(self.exact, self.pairs)} of the pairs can be corrected "
            "exactly",
            f"tokens          {_percent(self.tokens - self.lost.total(), self.tokens)} of "
            f"{self.tokens} tokens and sentence starts in {compared} pairs have the correct label",
            f"edits           {_percent(self.kept.total(), self.edits)} of {self.edits} edits have "
            "a label",
            f"with label      {kinds or 'none'}",
            f"without label   {lost or 'none'}",
            f"ceiling         F0.5 {100 * self.f05:.2f}, token accuracy "
            f"{100 * self.token_accuracy:.2f}, exact {_percent(self.exact, self.pairs)}",
        ]


def _fraction(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _percent(part: int, whole: int) -> str:
    return f"{100 * _fraction(part, whole):.2f}%"


METRICS = ("f0.5", "exact")
"""Names of the `Agreement` scores that tuning can maximize."""
SpanEdit = tuple[int, bool, tuple[str, ...]]
"""A `Change` as a tuple: position, True if the token is kept, and the inserted tokens."""


@dataclass(frozen=True)
class Agreement:
    """Counts of predicted, reference and correct edits."""

    sentences: int
    exact: int
    """Number of predictions that equal the reference."""
    reference: int
    """Number of reference edits."""
    predicted: int
    """Number of predicted edits."""
    correct: int
    """Number of predicted edits that are in the reference."""

    @property
    def scores(self) -> dict[str, float]:
        """Exact match, precision, recall and F0.5 in percent. A score with denominator 0 is 100."""
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
    """Count the predicted edits, the reference edits and the edits that both contain.

    Args:
        sentences: triples of a source, a prediction and a reference, as tokens separated by spaces
    """
    totals = [0] * 5
    for source, predicted, reference in sentences:
        is_exact = predicted.split() == reference.split()
        gold = _edits(source, reference)
        edits = gold if is_exact else _edits(source, predicted)
        counts = (1, is_exact, len(gold), len(edits), len(gold & edits))
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return Agreement(*totals)


@lru_cache(maxsize=100_000)
def _edits(source: str, target: str) -> frozenset[SpanEdit]:
    """Return the edits of a pair. If it cannot be aligned, a single edit replaces all tokens."""
    changes = align_tokens(source.split(), target.split())
    if changes is None:
        return frozenset({(0, False, tuple(target.split()))})
    return frozenset((change.position, change.kept, change.inserted) for change in changes)


def _agreement_percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 100.0
