"""MaxMatch (M2): the edits of a system that agree best with those of annotators.

Dahlmeier and Ng (2012), Better Evaluation for Grammatical Error Correction. Edits are
taken, weighed and counted as in the authors' script, m2scorer, as it is since 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.maxmatch.lattice import DEAREST, TooWideError, lattice
from fairseq_ssl.metrics.maxmatch.merged_arcs import ArcEdit, ArcPaths, GoldEdit, merged_arcs
from fairseq_ssl.metrics.maxmatch.wide_lattice import WidePaths
from fairseq_ssl.text.m2 import M2Edit, M2Sentence

UNCHANGED = 2
"""Words that an edit may hold unless told otherwise."""

MOST_ARCS = 100_000
"""Edits of a lattice that are listed one by one; beyond it, the path is found without a list."""


class MatchCounts(NamedTuple):
    """Edits of a sentence, or of a corpus."""

    correct: int
    proposed: int
    gold: int

    def __add__(self, other: object) -> MatchCounts:
        """Add sentence to corpus."""
        assert isinstance(other, MatchCounts)
        return MatchCounts(*(a + b for a, b in zip(self, other, strict=True)))


class MatchScores(NamedTuple):
    """Shares of edits."""

    precision: float
    recall: float
    f: float


@dataclass(frozen=True)
class MaxMatch:
    """How edits are taken from an output."""

    unchanged: int = UNCHANGED
    """Words that an edit may hold unchanged."""
    beta: float = 0.5
    """Of F: below 1, precision counts for more."""
    ignore_case: bool = False
    """Whether to leave out edits that change case or spaces only."""
    most_arcs: int = MOST_ARCS

    def __call__(self, pairs: Sequence[tuple[M2Sentence, str]]) -> list[list[MatchCounts]]:
        """Return by sentence the counts against each annotator, in the order of their numbers."""
        return [self.counts(sentence, output) for sentence, output in pairs]

    def counts(self, sentence: M2Sentence, output: str) -> list[MatchCounts]:
        """Return the counts of an output against each annotator."""
        gold = _gold(sentence)
        made = self._made(sentence, output, gold)
        return [self._against(path, edits) for path, edits in zip(made, gold, strict=True)]

    def edits(self, sentence: M2Sentence, output: str) -> list[list[ArcEdit]]:
        """Return the edits of an output that agree best with each annotator."""
        return self._made(sentence, output, _gold(sentence))

    def _made(
        self, sentence: M2Sentence, output: str, gold: Sequence[Sequence[GoldEdit]]
    ) -> list[list[ArcEdit]]:
        words = output.split()
        if words == list(sentence.words):
            return [[] for _ in gold]
        paths = self._paths(sentence, words, self._kept(gold))
        return [paths.best(edits) for edits in gold]

    def _kept(self, gold: Sequence[Sequence[GoldEdit]]) -> int | None:
        """Return how many words kept at either end matter; None if all of them do.

        Those that an edit can hold; all, where a gold edit keeps words too.
        """
        keeping = any(edit.words in edit.alternatives for edits in gold for edit in edits)
        return None if keeping or self.unchanged != UNCHANGED else UNCHANGED

    def _paths(self, sentence: M2Sentence, words: list[str], kept: int | None) -> AnyPaths:
        try:
            found = lattice(list(sentence.words), words, kept=kept)
        except TooWideError:
            raise DataError(
                f"The output for the sentence in line {sentence.line} of the m2 file has "
                f"{len(words)} words, and is too unlike the {len(sentence.words)} words of its "
                f"source: there are more than {DEAREST} cells to compare. Is this one sentence?"
            ) from None
        arcs = merged_arcs(found, self.unchanged, self.most_arcs)
        return ArcPaths(arcs) if arcs else WidePaths(found, self.unchanged)

    def _against(self, path: Sequence[ArcEdit], gold: Sequence[GoldEdit]) -> MatchCounts:
        if self.ignore_case:
            path = [edit for edit in path if _letters(edit[2]) != _letters(edit[3])]
        return MatchCounts(matches(path, gold), len(path), len(gold))


class AnyPaths(Protocol):
    """What finds the best path of a lattice."""

    def best(self, gold: Sequence[GoldEdit]) -> list[ArcEdit]:
        """Return the edits of the path that has most of the gold edits."""


def _gold(sentence: M2Sentence) -> list[list[GoldEdit]]:
    return [
        [gold_edit(sentence, edit) for edit in edits]
        for _, edits in sorted(sentence.annotators.items())
    ]


def gold_edit(sentence: M2Sentence, edit: M2Edit) -> GoldEdit:
    """Return what is compared of an edit."""
    words = " ".join(sentence.words[edit.start : edit.end])
    return GoldEdit(edit.start, edit.end, words, edit.alternatives)


def matches(path: Iterable[ArcEdit], gold: Sequence[GoldEdit]) -> int:
    """Count gold edits that are in the path, both in their order.

    As in the authors' script, an edit counts for every gold edit after the last that it fits, so
    that one which an annotator wrote down twice is right twice.
    """
    count = first = 0
    for edit in path:
        for place in range(first, len(gold)):
            if gold[place].fits(edit):
                count, first = count + 1, place + 1
    return count


def choose_gold(found: Iterable[Sequence[MatchCounts]], beta: float = 0.5) -> list[MatchCounts]:
    """Choose an annotator for each sentence: who makes F of all sentences so far the highest.

    Among equals, who gives more correct edits, then fewer others, then the first.
    """
    total, counts = MatchCounts(0, 0, 0), []
    for choices in found:
        best, key = choices[0], (-1.0, -1, -inf)
        for choice in choices:
            right, made, wanted = total + choice
            here = (_f(right, made, wanted, beta), right, -(made + beta * beta * wanted))
            if here > key:
                best, key = choice, here
        total += best
        counts.append(best)
    return counts


def match_scores(counts: Iterable[float], beta: float = 0.5) -> MatchScores:
    """Return precision, recall and F of the edits of a corpus: correct, proposed, gold."""
    correct, proposed, gold = counts
    precision = correct / proposed if proposed else 1.0
    recall = correct / gold if gold else 1.0
    below = beta * beta * precision + recall
    return MatchScores(
        precision, recall, (1 + beta * beta) * precision * recall / below if below else 0.0
    )


def _f(correct: float, proposed: float, gold: float, beta: float) -> float:
    """Return F as the choice of an annotator takes it: 1 where there is nothing to do."""
    below = beta * beta * gold + proposed
    return (1 + beta * beta) * correct / below if below else float(correct == 0)


def _letters(text: str) -> str:
    return text.replace(" ", "").lower()
