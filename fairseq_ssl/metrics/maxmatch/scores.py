"""MaxMatch (M2): F score of the system edits that match the annotators' edits best.

See Dahlmeier and Ng (2012), Better Evaluation for Grammatical Error Correction. Edits are
extracted, weighted and counted as in the authors' script, m2scorer, 2016 version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.maxmatch.lattice import MAX_CELLS, TooWideError, lattice
from fairseq_ssl.metrics.maxmatch.merged_arcs import ArcEdit, ArcPaths, GoldEdit, merged_arcs
from fairseq_ssl.metrics.maxmatch.wide_lattice import WidePaths
from fairseq_ssl.metrics.metric import (
    HYPOTHESES,
    EditMetric,
    MetricScore,
    SentenceStatistics,
    check_hypotheses,
    f_scores,
)
from fairseq_ssl.text.m2 import M2Edit, M2Sentence

UNCHANGED = 2
"""Maximum number of unchanged words in an edit."""

MAX_ARCS = 100_000
"""Maximum number of arcs for `ArcPaths`. Lattices with more arcs use `WidePaths`."""


class MatchCounts(NamedTuple):
    """Numbers of correct, proposed and gold edits in a sentence or a corpus."""

    correct: int
    proposed: int
    gold: int

    def __add__(self, other: object) -> MatchCounts:
        """Return the elementwise sum."""
        assert isinstance(other, MatchCounts)
        return MatchCounts(*(a + b for a, b in zip(self, other, strict=True)))


def count_matches(pairs: Sequence[tuple[M2Sentence, str]]) -> list[list[MatchCounts]]:
    """Return the match counts of each hypothesis, one per annotator, sorted by annotator id.

    Args:
        pairs: pairs of a gold sentence and a hypothesis
    """
    counts = []
    for sentence, output in pairs:
        gold = _gold(sentence)
        paths = _propose(sentence, output, gold)
        counts.append(
            [
                MatchCounts(matches(path, edits), len(path), len(edits))
                for path, edits in zip(paths, gold, strict=True)
            ]
        )
    return counts


def proposed_edits(sentence: M2Sentence, output: str) -> list[list[ArcEdit]]:
    """Return the system edits that best match each annotator, sorted by annotator id."""
    return _propose(sentence, output, _gold(sentence))


def _propose(
    sentence: M2Sentence, output: str, gold: Sequence[Sequence[GoldEdit]]
) -> list[list[ArcEdit]]:
    words, source = output.split(), list(sentence.words)
    if words == source:
        return [[] for _ in gold]
    try:
        cells = lattice(source, words)
    except TooWideError:
        raise DataError(
            f"The hypothesis for the sentence in line {sentence.line} of the M2 file has "
            f"{len(words)} words, and the source has {len(source)}. They are too long and too "
            f"different to align in {MAX_CELLS:,} table cells. Expected one sentence per line."
        ) from None
    arcs = merged_arcs(cells, UNCHANGED, MAX_ARCS)
    paths = ArcPaths(arcs) if arcs else WidePaths(cells, UNCHANGED)
    return [paths.best(edits) for edits in gold]


def _gold(sentence: M2Sentence) -> list[list[GoldEdit]]:
    return [
        [gold_edit(sentence, edit) for edit in edits]
        for _, edits in sorted(sentence.annotators.items())
    ]


def gold_edit(sentence: M2Sentence, edit: M2Edit) -> GoldEdit:
    """Convert an M2 edit to a `GoldEdit`, which contains the source words."""
    words = " ".join(sentence.words[edit.start : edit.end])
    return GoldEdit(edit.start, edit.end, words, edit.alternatives)


def matches(path: Iterable[ArcEdit], gold: Sequence[GoldEdit]) -> int:
    """Count the matches between system edits and gold edits, both in order.

    As in m2scorer, a system edit counts once for each matching gold edit after the last match. An
    edit that an annotator listed twice is therefore correct twice.
    """
    count = first = 0
    for edit in path:
        for index in range(first, len(gold)):
            if gold[index].fits(edit):
                count, first = count + 1, index + 1
    return count


def choose_gold(counts_of: Iterable[Sequence[MatchCounts]], beta: float = 0.5) -> list[MatchCounts]:
    """Return each sentence's counts against the annotator whose edits maximize the F score.

    The F score is computed over all sentences up to and including the current sentence.

    Ties are broken by more correct edits, then by a lower sum of the proposed edits and beta^2
    times the gold edits, then by the order of the annotators.
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


def _f(correct: float, proposed: float, gold: float, beta: float) -> float:
    """Compute the F score, 0 to 1, for choosing an annotator. It is 1 if there are no edits."""
    below = beta * beta * gold + proposed
    return (1 + beta * beta) * correct / below if below else float(correct == 0)


class MaxMatch(EditMetric):
    """MaxMatch F score, also called M2 score (Dahlmeier and Ng, 2012).

    Args:
        gold: path of an M2 file, or its sentences
        beta: weight of recall relative to precision, above 0, up to `MAX_BETA`
        jobs: number of processes, 1 or more
        progress: creates the progress report, which receives the number of processed sentences

    Example:
        >>> from fairseq_ssl.text.m2 import M2Edit, M2Sentence
        >>> edits = [M2Edit(2, 3, "R:VERB:SVA", "sits")]
        >>> metric = MaxMatch([M2Sentence(("a", "cat", "sit", "."), {0: edits})])
        >>> print(metric.corpus_score(["a cat sits ."]))
        F_0.5 = 100.00 (Precision = 100.00 Recall = 100.00)
    """

    method = "m2"

    def sentence_score(self, hypothesis: str, index: int = 0) -> MetricScore:
        """Score a hypothesis against the gold sentence at `index`."""
        counts = choose_gold(count_matches([(self.gold[index], hypothesis)]), self.beta)
        return MetricScore(self.name, self.values(np.array(counts, dtype=np.float64)))

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the numbers of correct, proposed and gold edits per hypothesis, [sentences, 3]."""
        check_hypotheses(hypotheses, label, self._label, len(self.gold))
        pairs = list(zip(self.gold, hypotheses, strict=True))
        counts = choose_gold(self._map(count_matches, pairs, label), self.beta)
        return np.array(counts, dtype=np.float64)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the precision, recall and F score of a corpus in percent, by name."""
        correct, proposed, gold = rows.sum(0).tolist()
        return self._named(f_scores(correct, proposed, gold, self.beta))

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters: beta, annotators, and extraction options."""
        return {
            **super().parameters(),
            "unchanged": UNCHANGED,
            "case": "compared",
        }
