"""Weights tuned on development sentences, cross-validated, and bounds of what they can gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.rerank.candidates import (
    Candidates,
    CandidateStatistics,
    Weights,
    choices,
    equal_weights,
)
from fairseq_ssl.rerank.grid import ScoreRange, grid_search
from fairseq_ssl.rerank.line_search import RESTARTS, line_search

VALIDATION_PARTS = 10
FOLDS = 5

ProgressCallback = Callable[[int], object]


def ignore(trials: int) -> None:
    """Tell nobody of work that is done."""


@dataclass(frozen=True)
class WeightSearch:
    """How weights are sought."""

    method: str = "mert"
    parts: int = VALIDATION_PARTS
    """Steps of the grid that make a weight of 1."""
    restarts: int = RESTARTS
    """Random points that lines start from."""
    seed: int = 1
    spread: ScoreRange = map
    """How the grid is spread over processes."""

    def __call__(
        self,
        candidates: Candidates,
        statistics: CandidateStatistics,
        done: ProgressCallback = ignore,
    ) -> Weights:
        """Return the best weights found; `done` is told of points of the grid, and of starts."""
        first: tuple[Weights, ...] = ()
        if self.method != "mert":
            best, _ = grid_search(candidates, statistics, self.parts, self.spread, done)
            if self.method == "grid":
                return best
            first = (best,)
        return line_search(candidates, statistics, self.restarts, self.seed, first, done).weights


def folds(sentences: int, number: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Yield the sentences of each fold, drawn without regard to their order."""
    yield from np.array_split(np.random.default_rng(seed).permutation(sentences), number)


def cross_validated(
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
    number: int = FOLDS,
    done: ProgressCallback = ignore,
) -> float:
    """Return the aim of choices by weights that were sought without the sentence's fold.

    All folds together are scored as one corpus, so the number stands beside that of weights
    sought on all sentences.
    """
    sentences = len(candidates.scores)
    chosen = np.zeros(sentences, np.intp)
    for fold in folds(sentences, number, search.seed):
        others = np.setdiff1d(np.arange(sentences), fold)
        weights = search(candidates.subset(others), statistics.subset(others), done)
        chosen[fold] = choices(candidates.subset(fold), weights)
    return statistics.score(chosen)


DRAWS = 100


@dataclass(frozen=True)
class Bounds:
    """The aim, in percent, without any weights."""

    first: float
    """Of the first candidates."""
    random: float
    """The mean over draws of one candidate of each sentence."""
    random_deviation: float
    oracle_sentences: float
    """Of the candidates that are best as sentences: exact for the mean of sentences' scores."""
    oracle_corpus: float
    """Of choices that no change in one sentence makes better: a lower bound of the best."""


@dataclass(frozen=True)
class Worth:
    """What one feature is worth, in percent of the aim."""

    alone: float
    """The feature alone chooses."""
    without: float | None
    """All others choose, their weights sought anew; None where there is no other."""


def score_bounds(
    candidates: Candidates, statistics: CandidateStatistics, seed: int = 1, draws: int = DRAWS
) -> Bounds:
    """Return what needs no weights."""
    rows = len(candidates.scores)
    draw = np.random.default_rng(seed)
    by_chance = [statistics.score(draw.integers(0, candidates.sizes)) for _ in range(draws)]
    as_sentences = statistics.aim.by_sentence(statistics.counts).argmax(1)
    return Bounds(
        statistics.score(np.zeros(rows, np.intp)),
        float(np.mean(by_chance)),
        float(np.std(by_chance)),
        statistics.score(as_sentences),
        statistics.score(greedy_oracle(statistics, as_sentences)),
    )


def greedy_oracle(statistics: CandidateStatistics, start: NDArray[np.intp]) -> NDArray[np.intp]:
    """Change one sentence's candidate after the other while the corpus' aim rises, [sentences]."""
    counts, aim = statistics.counts, statistics.aim
    chosen = start.copy()
    sums = statistics.chosen(chosen).sum(0)
    best, changed = float(aim.values(sums)), True
    while changed:
        changed = False
        for number, (rows, place) in enumerate(zip(counts, chosen, strict=True)):
            possible = sums - rows[place] + rows
            values = aim.values(possible)
            other = int(values.argmax())
            if values[other] > best:
                best, changed = float(values[other]), True
                chosen[number], sums = other, possible[other]
    return chosen


def worths(
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
    done: ProgressCallback = ignore,
) -> dict[str, Worth]:
    """Return what each feature is worth, by name."""
    found = {}
    for name in candidates.names:
        alone = candidates.only([name])
        others = candidates.only([other for other in candidates.names if other != name])
        without = None
        if others.names:
            weights = search(others, statistics, done)
            without = statistics.score(choices(others, weights))
        found[name] = Worth(statistics.score(choices(alone, equal_weights(alone))), without)
    return found
