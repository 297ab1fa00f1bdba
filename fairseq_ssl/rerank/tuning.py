"""Weights sought on development sentences, and how much of their gain stays on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.rerank.candidates import Candidates, Weights
from fairseq_ssl.rerank.grid import Spread, grid_search
from fairseq_ssl.rerank.line_search import RESTARTS, line_search
from fairseq_ssl.rerank.selection import choices
from fairseq_ssl.rerank.statistics import Statistics

PARTS = 10
FOLDS = 5

Done = Callable[[int], object]


def ignore(trials: int) -> None:
    """Tell nobody of work that is done."""


@dataclass(frozen=True)
class Search:
    """How weights are sought."""

    method: str = "mert"
    parts: int = PARTS
    """Steps of the grid that make a weight of 1."""
    restarts: int = RESTARTS
    """Random points that lines start from."""
    seed: int = 1
    spread: Spread = map
    """How the grid is spread over processes."""

    def __call__(
        self, candidates: Candidates, statistics: Statistics, done: Done = ignore
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
    search: Search,
    candidates: Candidates,
    statistics: Statistics,
    number: int = FOLDS,
    done: Done = ignore,
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
