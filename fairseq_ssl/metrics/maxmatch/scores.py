"""MaxMatch (M2): F of the edits of a system that agree best with the edits of annotators.

Dahlmeier and Ng (2012), Better Evaluation for Grammatical Error Correction. Edits are
extracted, weighted and counted as in the authors' script, m2scorer, in its version of 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.metrics.maxmatch.lattice import MAX_CELLS, TooWideError, lattice
from fairseq_ssl.metrics.maxmatch.merged_arcs import ArcEdit, ArcPaths, GoldEdit, merged_arcs
from fairseq_ssl.metrics.maxmatch.wide_lattice import WidePaths
from fairseq_ssl.metrics.metric import (
    HYPOTHESES,
    EditMetric,
    MetricScore,
    SentenceStatistics,
    check_lengths,
    read_gold,
)
from fairseq_ssl.text.m2 import M2Edit, M2Sentence

UNCHANGED = 2
"""Default number of unchanged words in an edit."""

MAX_ARCS = 100_000
"""Maximum number of edits of a lattice that are listed. Larger lattices use `WidePaths`."""


class MatchCounts(NamedTuple):
    """Numbers of edits of a sentence or of a corpus."""

    correct: int
    proposed: int
    gold: int

    def __add__(self, other: object) -> MatchCounts:
        """Return the sum of two counts."""
        assert isinstance(other, MatchCounts)
        return MatchCounts(*(a + b for a, b in zip(self, other, strict=True)))


class MatchScores(NamedTuple):
    """Scores between 0 and 1."""

    precision: float
    recall: float
    f: float


@dataclass(frozen=True)
class MaxMatch:
    """Extraction of edits from hypotheses."""

    unchanged: int = UNCHANGED
    """Maximum number of unchanged words in an edit."""
    beta: float = 0.5
    """Weight of recall against precision."""
    ignore_case: bool = False
    """Ignore edits that only change case or spaces."""
    max_arcs: int = MAX_ARCS

    def __call__(self, pairs: Sequence[tuple[M2Sentence, str]]) -> list[Sequence[MatchCounts]]:
        """Return the counts of each sentence against each annotator, sorted by annotator."""
        return [self.counts(sentence, output) for sentence, output in pairs]

    def counts(self, sentence: M2Sentence, output: str) -> list[MatchCounts]:
        """Return the counts of a hypothesis against each annotator."""
        gold = _gold(sentence)
        proposed = self._propose(sentence, output, gold)
        return [self._against(path, edits) for path, edits in zip(proposed, gold, strict=True)]

    def edits(self, sentence: M2Sentence, output: str) -> list[list[ArcEdit]]:
        """Return the edits of a hypothesis that agree best with each annotator."""
        return self._propose(sentence, output, _gold(sentence))

    def _propose(
        self, sentence: M2Sentence, output: str, gold: Sequence[Sequence[GoldEdit]]
    ) -> list[list[ArcEdit]]:
        words = output.split()
        if words == list(sentence.words):
            return [[] for _ in gold]
        paths = self._paths(sentence, words, self._kept(gold))
        return [paths.best(edits) for edits in gold]

    def _kept(self, gold: Sequence[Sequence[GoldEdit]]) -> int | None:
        """Return how many of the unchanged words at either end an edit can include.

        None if all of them can matter, because a gold edit has unchanged words too.
        """
        keeping = any(edit.words in edit.alternatives for edits in gold for edit in edits)
        return None if keeping or self.unchanged != UNCHANGED else UNCHANGED

    def _paths(self, sentence: M2Sentence, words: list[str], kept: int | None) -> AnyPaths:
        try:
            cells = lattice(list(sentence.words), words, kept=kept)
        except TooWideError:
            raise DataError(
                f"The hypothesis for the sentence in line {sentence.line} of the M2 file has "
                f"{len(words)} words and differs too much from its source of "
                f"{len(sentence.words)} words: the lattice has more than {MAX_CELLS} cells. "
                "Expected one sentence a line."
            ) from None
        arcs = merged_arcs(cells, self.unchanged, self.max_arcs)
        return ArcPaths(arcs) if arcs else WidePaths(cells, self.unchanged)

    def _against(self, path: Sequence[ArcEdit], gold: Sequence[GoldEdit]) -> MatchCounts:
        if self.ignore_case:
            path = [edit for edit in path if _letters(edit[2]) != _letters(edit[3])]
        return MatchCounts(matches(path, gold), len(path), len(gold))


class AnyPaths(Protocol):
    """Search of the best path through a lattice."""

    def best(self, gold: Sequence[GoldEdit]) -> list[ArcEdit]:
        """Return the edits of the path with the most gold edits."""


def _gold(sentence: M2Sentence) -> list[list[GoldEdit]]:
    return [
        [gold_edit(sentence, edit) for edit in edits]
        for _, edits in sorted(sentence.annotators.items())
    ]


def gold_edit(sentence: M2Sentence, edit: M2Edit) -> GoldEdit:
    """Return the fields of an edit that are compared."""
    words = " ".join(sentence.words[edit.start : edit.end])
    return GoldEdit(edit.start, edit.end, words, edit.alternatives)


def matches(path: Iterable[ArcEdit], gold: Sequence[GoldEdit]) -> int:
    """Count the gold edits in the path, both in their order.

    As in the authors' script, an edit counts for every matching gold edit after the last match. So
    an edit that an annotator wrote twice is correct twice.
    """
    count = first = 0
    for edit in path:
        for index in range(first, len(gold)):
            if gold[index].fits(edit):
                count, first = count + 1, index + 1
    return count


def choose_gold(counts_of: Iterable[Sequence[MatchCounts]], beta: float = 0.5) -> list[MatchCounts]:
    """Choose the annotator of each sentence that maximizes F of all sentences so far.

    Ties go to more correct edits, then to fewer other edits, then to the first annotator.
    """
    total, counts = MatchCounts(0, 0, 0), []
    for choices in counts_of:
        best, key = choices[0], (-1.0, -1, -inf)
        for choice in choices:
            correct, proposed, gold = total + choice
            f = _f(correct, proposed, gold, beta)
            here = (f, correct, -(proposed + beta * beta * gold))
            if here > key:
                best, key = choice, here
        total += best
        counts.append(best)
    return counts


def match_scores(counts: Iterable[float], beta: float = 0.5) -> MatchScores:
    """Return precision, recall and F of numbers of correct, proposed and gold edits."""
    correct, proposed, gold = counts
    precision = correct / proposed if proposed else 1.0
    recall = correct / gold if gold else 1.0
    below = beta * beta * precision + recall
    return MatchScores(
        precision, recall, (1 + beta * beta) * precision * recall / below if below else 0.0
    )


def _f(correct: float, proposed: float, gold: float, beta: float) -> float:
    """Return F for the choice of an annotator: 1 if there are no edits."""
    below = beta * beta * gold + proposed
    return (1 + beta * beta) * correct / below if below else float(correct == 0)


def _letters(text: str) -> str:
    return text.replace(" ", "").lower()


class M2(EditMetric):
    """F of edits by MaxMatch, the M2 score (Dahlmeier and Ng, 2012).

    Args:
        gold: the path of an M2 file, or its sentences
        beta: weight of recall against precision, above 0
        max_unchanged_words: maximum number of unchanged words in an edit, 0 or more
        ignore_case: ignore edits that only change case or spaces
        jobs: number of processes, 1 or more
        progress: reports scored sentences

    Example:
        >>> from fairseq_ssl.text.m2 import M2Edit, M2Sentence
        >>> edits = [M2Edit(2, 3, "R:VERB:SVA", "sits")]
        >>> metric = M2([M2Sentence(("a", "cat", "sit", "."), {0: edits})])
        >>> print(metric.corpus_score(["a cat sits ."]))
        F_0.5 = 100.00 (Precision = 100.00 Recall = 100.00)
    """

    method = "m2"

    def __init__(
        self,
        gold: str | Path | Iterable[M2Sentence],
        beta: float = 0.5,
        max_unchanged_words: int = UNCHANGED,
        ignore_case: bool = False,
        jobs: int = 1,
        progress: ProgressFactory = silent_progress,
    ) -> None:
        super().__init__(beta, jobs, progress)
        self._label, self.gold = read_gold(gold)
        self._match = MaxMatch(max_unchanged_words, beta, ignore_case)

    def sentence_score(self, hypothesis: str, index: int = 0) -> MetricScore:
        """Return the score of the hypothesis for the gold sentence `index`."""
        counts = choose_gold([self._match.counts(self.gold[index], hypothesis)], self.beta)
        return MetricScore(self.name, self.values(np.array(counts, dtype=np.float64)))

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the numbers of correct, proposed and gold edits of each hypothesis."""
        check_lengths(self._label, len(self.gold), label, len(hypotheses))
        pairs = list(zip(self.gold, hypotheses, strict=True))
        counts = choose_gold(self._map(self._match, pairs, label), self.beta)
        return np.array(counts, dtype=np.float64)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return precision, recall and F."""
        return self._named(match_scores(rows.sum(0).tolist(), self.beta))

    def parameters(self) -> dict[str, Any]:
        """Return the number of annotators, and the options of the extraction of edits."""
        return {
            **super().parameters(),
            "annotators": max(len(sentence.annotators) for sentence in self.gold),
            "unchanged": self._match.unchanged,
            "case": "ignored" if self._match.ignore_case else "compared",
        }
