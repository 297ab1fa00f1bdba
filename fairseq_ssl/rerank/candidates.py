"""The scores of all candidates as one block of integers, and the choice that weights make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, nearest
from fairseq_ssl.metrics.bleu import Lists, SentenceSums, SumMetric

SCORE_UNITS = 10**6
"""A weight of 1, in what weights are whole numbers of."""
SCORE_BITS = 52
"""Of a double, one less than it has, so that differences of scores are exact too."""

MIN_SCORE = 1000
"""As what whole number a feature's largest score must come out, so that others differ from it."""

Weights = NDArray[np.int64]
"""By feature, in 1/UNITS."""
IntegerArray = NDArray[np.float64]


@dataclass(frozen=True)
class Candidates:
    """Scores of candidates, as whole numbers in doubles."""

    names: tuple[str, ...]
    """Of the features."""
    scores: IntegerArray
    """[sentences, candidates, features]; places without a candidate repeat the first one."""
    sizes: NDArray[np.intp]
    """How many candidates each sentence has."""

    @classmethod
    def of(
        cls,
        lists: Sequence[Sequence[Mapping[str, float]]],
        names: Sequence[str] | None = None,
        file: str = "the list",
        first: int = 1,
    ) -> Candidates:
        """Make the block from each candidate's named scores.

        Args:
            lists: the candidates of each sentence, at least one
            names: the features to take (all that the first candidate has, if not given)
            file: where they come from, a candidate a line, for messages
            first: the line of the first one
        """
        taken = tuple(lists[0][0] if names is None else names)
        if not taken:
            raise DataError(f"{file}:{first} has no score. Expected one or more.")
        sizes = np.array(list(map(len, lists)), np.intp)
        block = np.zeros((len(lists), int(sizes.max()), len(taken)))
        line = first
        for number, candidates in enumerate(lists):
            rows = [
                _row(scores, taken, f"{file}:{line + place}")
                for place, scores in enumerate(candidates)
            ]
            block[number] = rows[0]
            block[number, : len(rows)] = rows
            line += len(rows)
        return cls(taken, _whole(block, taken, file), sizes)

    def subset(self, rows: NDArray[np.intp]) -> Candidates:
        """Return some sentences."""
        return replace(self, scores=self.scores[rows], sizes=self.sizes[rows])

    def only(self, names: Sequence[str]) -> Candidates:
        """Return the same candidates with some features."""
        places = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), scores=self.scores[:, :, places])


def whole_weights(weights: Mapping[str, float]) -> Weights:
    """Return weights as whole numbers of millionths."""
    whole: Weights = np.rint(np.array(list(weights.values())) * SCORE_UNITS).astype(np.int64)
    return whole


def named_weights(names: Sequence[str], weights: Weights) -> dict[str, float]:
    """Return weights as people write them."""
    return {name: int(weight) / SCORE_UNITS for name, weight in zip(names, weights, strict=True)}


def _row(scores: Mapping[str, float], names: Sequence[str], where: str) -> list[float]:
    """Return the scores by name; refuse what is missing or no number."""
    for name in names:
        if name not in scores:
            raise DataError(
                f"{where} has no score {name!r}.{nearest(name, scores)} Every candidate needs "
                "every score: let each model score all of the list."
            )
        if not math.isfinite(scores[name]):
            raise DataError(f"{where} has {name}= {scores[name]}; expected a finite number.")
    return [scores[name] for name in names]


def _whole(block: IntegerArray, names: Sequence[str], file: str) -> IntegerArray:
    """Return the numbers as multiples of a power of ten that leaves sums exact."""
    sides = np.abs(block).max((0, 1))
    largest = float(sides.max())
    if largest == 0:
        return block
    bits = (
        SCORE_BITS
        - math.ceil(math.log2(SCORE_UNITS))
        - math.ceil(math.log2(max(block.shape[-1], 2)))
    )
    scale = 10.0 ** math.floor(math.log10(2**bits / largest))
    for name, side in zip(names, sides.tolist(), strict=True):
        if 0 < side * scale < MIN_SCORE:
            raise DataError(
                f"{file} has scores {name!r} up to {side:.3g} and {names[sides.argmax()]!r} up to "
                f"{largest:.3g}, too far apart to be weighed together. Scale one of them."
            )
    return np.asarray(np.rint(block * scale) + 0.0)  # no -0.0


def weighted_totals(candidates: Candidates, weights: Weights) -> IntegerArray:
    """Return the weighted sums, [sentences, candidates], exact, in millionths of a unit."""
    sums: IntegerArray = candidates.scores @ weights.astype(np.float64)
    return sums


def choices(candidates: Candidates, weights: Weights) -> NDArray[np.intp]:
    """Return the place of each sentence's best candidate, [sentences]; of equal ones the first."""
    places: NDArray[np.intp] = weighted_totals(candidates, weights).argmax(1)
    return places


def equal_weights(candidates: Candidates) -> Weights:
    """Return a weight of 1 for every feature: the plain sum of all."""
    return np.full(len(candidates.names), SCORE_UNITS, np.int64)


@dataclass(frozen=True)
class CandidateStatistics:
    """The counts of all candidates, and what they are counts for."""

    aim: SumMetric
    counts: SentenceSums
    """[sentences, candidates, counts]; places without a candidate repeat the first one's."""

    @classmethod
    def of(cls, aim: SumMetric, lists: Lists, references: Lists) -> CandidateStatistics:
        """Count, once for all that follows.

        Args:
            aim: what to count for
            lists: the texts of each sentence's candidates
            references: the files of references, a line a sentence each
        """
        most = max(map(len, lists))
        rows = [
            [*found, *[found[0]] * (most - len(found))] for found in aim.counts(lists, references)
        ]
        return cls(aim, np.array(rows, np.int64))

    def chosen(self, choices: NDArray[np.intp]) -> SentenceSums:
        """Return the counts of one candidate of each sentence, [sentences, counts]."""
        rows: SentenceSums = self.counts[np.arange(len(choices)), choices]
        return rows

    def score(self, choices: NDArray[np.intp]) -> float:
        """Return the corpus score, as sacreBLEU has it, of one candidate of each sentence."""
        return self.aim.exact(self.chosen(choices).sum(0))

    def subset(self, rows: NDArray[np.intp]) -> CandidateStatistics:
        """Return the statistics of some sentences."""
        return CandidateStatistics(self.aim, self.counts[rows])
