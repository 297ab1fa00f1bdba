"""Grid search for edit decoding options, on stored edit probabilities and gold labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.edits.application import EditCandidates
from fairseq_ssl.edits.coverage import BETA_SQUARED
from fairseq_ssl.edits.dictionary import KEEP_ID
from fairseq_ssl.edits.extraction import LabelExtractor
from fairseq_ssl.text.spans import Ids

NO_LABEL = -1
"""Gold label of edits that are not in the edit dictionary, which a model cannot predict."""

Grid = Mapping[str, tuple[float, ...]]


def _steps(first: int, last: int) -> tuple[float, ...]:
    """Return fractions from `first` to `last` percent, in steps of 0.05."""
    return tuple(value / 100 for value in range(first, last + 1, 5))


GRID: Grid = {
    "keep_bias": _steps(-30, 70),
    "min_confidence": _steps(0, 95),
    "min_sentence_confidence": _steps(0, 95),
}
"""Values to compare for each `CorrectionSearch` option. An option with the value 0 is disabled."""
MIN_BIAS = min(GRID["keep_bias"])


class GridCounts(NamedTuple):
    """Counts for each combination of options. The array axes are the options, in grid order."""

    predicted: Ids
    """Number of predicted edits."""
    correct: Ids
    """Number of predicted edits that equal the gold edit at their position."""
    exact: Ids
    """Number of sentences in which the predicted edits are exactly the gold edits."""


def label_pairs(
    extractor: LabelExtractor, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]
) -> Ids:
    """Return the gold labels of tokenized pairs, concatenated.

    Each pair has a label for the sentence start and for each source token. Edits that are not in
    the dictionary have `NO_LABEL`. A pair that is too long and too different to align has
    `NO_LABEL` at its start.
    """
    labels: list[int] = []
    for source, target in pairs:
        extracted = extractor(source, target)
        ids = [KEEP_ID] * (len(source) + 1) if extracted is None else list(extracted.ids)
        for position in [0] if extracted is None else [edit.position for edit in extracted.lost]:
            ids[position] = NO_LABEL
        labels += ids
    return np.array(labels, np.int64)


@dataclass(frozen=True)
class EditSearch:
    """Edit candidates of a model, and gold labels, for concatenated sentences."""

    candidates: EditCandidates
    """Candidate edits at each position."""
    starts: Ids
    """Positions of sentence starts, [sentences]."""
    gold: Ids
    """Gold labels from `label_pairs`, [positions]."""

    @cached_property
    def gold_edits(self) -> int:
        """Number of gold edits, including edits that are not in the edit dictionary."""
        return int((self.gold != KEEP_ID).sum())

    def count(self, grid: Grid = GRID) -> GridCounts:
        """Return the counts of the first correction round for all combinations of options.

        For each bias, positions and sentences are sorted into bins between the values of the two
        thresholds. The counts for all thresholds are cumulative sums over the bins.
        """
        names = ("keep_bias", "min_confidence", "min_sentence_confidence")
        biases, confidences, errors = (grid[name] for name in names)
        search = self._active(min(biases))
        bins = _Bins(np.array(confidences, np.float32), np.array(errors, np.float32))
        highest = np.maximum.reduceat(self.candidates.errors, self.starts)
        sentence_bins = np.searchsorted(bins.errors, np.maximum(highest, 0), "right")
        counted = [search.count_bins(bins, sentence_bins, bias) for bias in biases]
        shape = [len(grid[name]) for name in names]
        return GridCounts(*(np.stack(field).reshape(shape) for field in zip(*counted, strict=True)))

    def scores(self, counts: GridCounts, metric: str) -> NDArray[np.float64]:
        """Return the score of each combination in percent. F0.5 is 100 if there are no edits."""
        if metric == "exact":
            return 100 * counts.exact / max(1, len(self.starts))
        whole = counts.predicted + BETA_SQUARED * self.gold_edits
        part = (1 + BETA_SQUARED) * counts.correct
        return np.where(whole > 0, 100 * part / np.maximum(whole, 0.1), 100.0)

    def best(self, metric: str, number: int = 1, grid: Grid = GRID) -> list[dict[str, float]]:
        """Return the `number` best combinations of options, best first.

        Among combinations with equal scores, those with fewer nonzero options come first, then
        those with lower absolute values. Of combinations with equal counts, only the first is kept.
        """
        counts = self.count(grid)
        values = np.array(list(product(*grid.values())))
        effort = np.count_nonzero(values, axis=1), np.abs(values).sum(1).round(6)
        order = np.lexsort((*effort[::-1], -self.scores(counts, metric).ravel()))
        keys = np.stack([field.ravel() for field in counts], 1)[order]
        _, first = np.unique(keys, axis=0, return_index=True)
        chosen = values[order[np.sort(first)[:number]]]
        return [dict(zip(grid, row, strict=True)) for row in chosen.tolist()]

    def _active(self, min_bias: float) -> _ActivePositions:
        """Return the positions with a gold edit, or with a predicted edit for `min_bias`."""
        is_active = _is_preferred(self.candidates, min_bias)
        which = np.flatnonzero(is_active | (self.gold != KEEP_ID))
        sentence = np.searchsorted(self.starts, which, "right") - 1
        has_edits = np.zeros(len(self.starts), np.bool_)
        has_edits[sentence[self.gold[which] != KEEP_ID]] = True
        candidates = EditCandidates._make(field[which] for field in self.candidates)
        return _ActivePositions(candidates, sentence, self.gold[which], has_edits)


class _Bins(NamedTuple):
    """Thresholds in increasing order. A value that reaches n thresholds is in bin n."""

    confidences: NDArray[np.float32]
    errors: NDArray[np.float32]


class _ActivePositions(NamedTuple):
    candidates: EditCandidates
    sentence: Ids
    """Sentence indices, [positions]."""
    gold: Ids
    has_edits: NDArray[np.bool_]
    """True for sentences with gold edits, [sentences]."""

    def count_bins(self, bins: _Bins, sentence_bins: Ids, keep_bias: float) -> tuple[Ids, Ids, Ids]:
        """Return the `GridCounts` fields for a bias, [min_confidence, min_sentence_confidence]."""
        reached = np.searchsorted(bins.confidences, self.candidates.probabilities, "right")
        reached = np.where(_is_preferred(self.candidates, keep_bias), reached, 0)
        is_correct = self.candidates.labels == self.gold
        errors = sentence_bins[self.sentence]
        size = (len(bins.confidences) + 1, len(bins.errors) + 1)
        predicted, correct = (
            _count_bins(reached[which], errors[which], size)[::-1].cumsum(0)[::-1][1:]
            for which in (slice(None), is_correct)
        )
        exact = self._exact_ranges(reached, is_correct, sentence_bins, size)
        rows = (_reached(predicted), _reached(correct), _reached(exact))
        unlikely = np.bincount(sentence_bins[~self.has_edits], minlength=size[1])
        return rows[0], rows[1], rows[2] + np.cumsum(unlikely)[:-1]

    def _exact_ranges(
        self, reached: Ids, is_correct: NDArray[np.bool_], sentence_bins: Ids, size: tuple[int, int]
    ) -> Ids:
        """Return the number of exact sentences, [min_confidence, sentence bins].

        A sentence is exact if the edits that reach min_confidence are exactly its gold edits.
        """
        first = np.zeros_like(sentence_bins)
        last = np.full_like(sentence_bins, size[0] - 1)
        is_gold = self.gold != KEEP_ID
        np.maximum.at(first, self.sentence[~is_gold], reached[~is_gold])
        correct = np.where(is_correct, reached, 0)[is_gold]
        np.minimum.at(last, self.sentence[is_gold], correct)
        is_exact = first < last
        changes = _count_bins(first[is_exact], sentence_bins[is_exact], size)
        changes -= _count_bins(last[is_exact], sentence_bins[is_exact], size)
        exact: Ids = changes.cumsum(0)[:-1]
        return exact


def _is_preferred(candidates: EditCandidates, keep_bias: float) -> NDArray[np.bool_]:
    """Return a mask of positions with an edit more probable than keep plus `keep_bias`."""
    is_preferred: NDArray[np.bool_] = candidates.probabilities > candidates.kept + keep_bias
    is_preferred &= candidates.labels != KEEP_ID
    return is_preferred


def _count_bins(rows: Ids, columns: Ids, size: tuple[int, int]) -> Ids:
    """Count each (row, column) pair. Return the counts, [rows, columns]."""
    flat = np.bincount(rows * size[1] + columns, minlength=size[0] * size[1])
    return flat.reshape(size)


def _reached(bins: Ids) -> Ids:
    """Sum the bins that reach each threshold, along the last axis."""
    sums: Ids = bins[:, ::-1].cumsum(1)[:, ::-1][:, 1:]
    return sums
