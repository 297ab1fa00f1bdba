"""Arrays of candidate scores and metric counts, and selection of the best candidates."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, nearest
from fairseq_ssl.metrics.bleu import Lists, SentenceSums, SumMetric

SCORE_UNITS = 10**6
"""Integer that represents a weight of 1."""
SCORE_BITS = 52
"""Maximum number of bits in a weighted sum, one less than in the significand of a double, so that
differences are exact."""

MIN_SCORE = 1000
"""Minimum median of a feature's nonzero absolute scores after scaling. Smaller scores lose too much
precision when they are rounded."""

Weights = NDArray[np.int64]
"""Weights in units of 1 / SCORE_UNITS, [features]."""
IntegerArray = NDArray[np.float64]


@dataclass(frozen=True)
class Candidates:
    """Candidate scores, scaled by a power of ten, rounded to integers and stored as doubles."""

    names: tuple[str, ...]
    """Feature names, in the order of the last axis of `scores`."""
    scores: IntegerArray
    """Scores, padded with the first candidate of each list, [sentences, candidates, features]."""
    sizes: NDArray[np.intp]
    """Number of candidates for each sentence, [sentences]."""

    @classmethod
    def of(
        cls,
        lists: Sequence[Sequence[Mapping[str, float]]],
        names: Sequence[str] | None = None,
        file: str = "the list",
    ) -> Candidates:
        """Collect, scale and round the scores. Raise DataError if a score is missing.

        Args:
            lists: scores of each candidate by name, [sentences][candidates]
            names: names of the features (default: all scores of the first candidate)
            file: name of the list in messages
        """
        features = tuple(lists[0][0] if names is None else names)
        if not features:
            raise DataError(f"{file}:1 contains no scores. Expected at least one per candidate.")
        block = score_block(lists, features, file, 1)
        sizes = np.array(list(map(len, lists)), np.intp)
        return cls(features, _round_scores(block, features, file), sizes)

    def subset(self, rows: NDArray[np.intp]) -> Candidates:
        """Return a copy with only the sentences at the indices `rows`."""
        return replace(self, scores=self.scores[rows], sizes=self.sizes[rows])

    def only(self, names: Sequence[str]) -> Candidates:
        """Return a copy with only the features in `names`, in this order."""
        columns = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), scores=self.scores[:, :, columns])


def score_block(
    lists: Sequence[Sequence[Mapping[str, float]]], names: Sequence[str], file: str, first: int
) -> NDArray[np.float64]:
    """Return the unrounded scores, padded as in `Candidates`, [sentences, candidates, features]."""
    block = np.zeros((len(lists), max(map(len, lists)), len(names)))
    line = first
    for number, candidates in enumerate(lists):
        rows = [
            _row(scores, names, f"{file}:{line + offset}")
            for offset, scores in enumerate(candidates)
        ]
        block[number] = rows[0]
        block[number, : len(rows)] = rows
        line += len(rows)
    return block


def whole_weights(weights: Mapping[str, float]) -> Weights:
    """Convert weights to integers from 0 to SCORE_UNITS. At least one weight must be above 0.

    The weights are divided by a power of ten, which preserves ties between decimal weights.
    """
    values = np.array(list(weights.values()), np.float64)
    digits = min(math.ceil(math.log10(values.max())), sys.float_info.max_10_exp)
    whole: Weights = np.rint(values / 10.0**digits * SCORE_UNITS).astype(np.int64)
    return whole


def named_weights(names: Sequence[str], weights: Weights) -> dict[str, float]:
    """Convert integer weights to floats, by feature name."""
    return {name: int(weight) / SCORE_UNITS for name, weight in zip(names, weights, strict=True)}


def _row(scores: Mapping[str, float], names: Sequence[str], where: str) -> list[float]:
    """Return the scores in the order of `names`. Raise DataError for missing scores."""
    for name in names:
        if name not in scores:
            raise DataError(
                f"{where} contains no score {name!r}.{nearest(name, scores)} Every candidate needs "
                "this score. Check the name, or score the complete list with each model."
            )
    return [scores[name] for name in names]


def _round_scores(block: IntegerArray, names: Sequence[str], file: str) -> IntegerArray:
    """Scale all scores by the same power of ten and round them, so that weighted sums are exact.

    Raise DataError if the median score of a feature is too small relative to the largest score.
    """
    sizes = np.abs(block)
    sides = sizes.max((0, 1))
    largest = float(sides.max())
    if largest == 0:
        return block
    columns = (sizes[..., at][sizes[..., at] > 0] for at in range(len(names)))
    usual = [float(np.median(column)) if len(column) else 0.0 for column in columns]
    bits = (
        SCORE_BITS
        - math.ceil(math.log2(SCORE_UNITS))
        - math.ceil(math.log2(max(block.shape[-1], 2)))
    )
    scale = 10.0 ** math.floor(math.log10(2**bits / largest))
    for name, median in zip(names, usual, strict=True):
        if 0 < median * scale < MIN_SCORE:
            highest = names[int(sides.argmax())]
            raise DataError(
                f"In {file}, the scores {name!r} are about {median:.3g}, but the scores "
                f"{highest!r} reach {largest:.3g}. These ranges are too different for weighted "
                "sums. Rescale or clip the scores."
            )
    return np.asarray(np.rint(block * scale))


def choices(candidates: Candidates, weights: Weights) -> NDArray[np.intp]:
    """Return the index of each sentence's best candidate, [sentences].

    The weighted sums are exact. Ties go to the first candidate.
    """
    indices: NDArray[np.intp] = (candidates.scores @ weights.astype(np.float64)).argmax(1)
    return indices


def equal_weights(candidates: Candidates) -> Weights:
    """Return weights of 1 for all features, in units of 1 / SCORE_UNITS."""
    return np.full(len(candidates.names), SCORE_UNITS, np.int64)


@dataclass(frozen=True)
class CandidateStatistics:
    """Metric counts of all candidates, such as n-gram matches, to compute corpus scores."""

    metric: SumMetric
    counts: SentenceSums
    """Counts, [sentences, candidates, counts], padded in the same way as `Candidates.scores`."""

    @classmethod
    def of(cls, metric: SumMetric, lists: Lists, references: Lists) -> CandidateStatistics:
        """Compute the metric counts of all candidates.

        Args:
            metric: corpus metric that is computed from summed sentence counts
            lists: for each sentence, the texts of its candidates
            references: one list of references per annotator
        """
        size = max(map(len, lists))
        rows = [[*row, *[row[0]] * (size - len(row))] for row in metric.counts(lists, references)]
        return cls(metric, np.array(rows, np.int64))

    def chosen(self, choices: NDArray[np.intp]) -> SentenceSums:
        """Return the counts of one candidate per sentence, [sentences, counts].

        `choices` contains the index of a candidate for each sentence.
        """
        rows: SentenceSums = self.counts[np.arange(len(choices)), choices]
        return rows

    def score(self, choices: NDArray[np.intp]) -> float:
        """Return the corpus score of one candidate per sentence, computed with sacreBLEU."""
        return self.metric.exact(self.chosen(choices).sum(0))

    def subset(self, rows: NDArray[np.intp]) -> CandidateStatistics:
        """Return a copy with only the sentences at the indices `rows`."""
        return CandidateStatistics(self.metric, self.counts[rows])
