"""Weights of scores: read, searched, and applied to n-best lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.text_files import parse_json, read_lines
from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    CandidateStatistics,
    Weights,
    choices,
    equal_weights,
    weighted_totals,
    whole_weights,
)
from fairseq_ssl.rerank.grid import ONE_PROCESS, grid_search
from fairseq_ssl.rerank.line_search import RESTARTS, line_search
from fairseq_ssl.rerank.nbest import (
    NBest,
    SentenceCandidates,
    check_indices,
    format_nbest,
    parse_nbest,
)

BLOCK = 10_000
"""Number of sentences that are sorted at a time."""


def apply(nbest: NBest, weights: Mapping[str, float]) -> list[str]:
    """Return the candidate of each sentence with the highest weighted sum of scores.

    Of candidates with equal sums, the first one is taken.

    Args:
        nbest: the list
        weights: weights by the name of the score, 0 or more; other scores are ignored

    Example:
        >>> nbest = NBest.parse(["0 ||| a cat ||| s= -1 t= -4", "0 ||| cat ||| s= -2 t= -1"])
        >>> apply(nbest, {"s": 1})
        ['a cat']
        >>> apply(nbest, {"s": 0.5, "t": 1})
        ['cat']
    """
    groups = sort_candidates(nbest.sentences, check_weights(weights), nbest.name)
    return [group.candidates[0].text for group in groups]


def apply_to_lines(
    lines: Iterable[str], weights: Mapping[str, float], name: str, nbest: bool = False
) -> Iterator[str]:
    """Yield the best candidate of each sentence, for lists that do not fit into memory.

    Args:
        lines: lines of an n-best list in the format of Moses
        weights: weights by the name of the score, 0 or more
        name: what messages call the list
        nbest: yield the lines of all candidates, best first, with their sums as totals
    """
    checked = check_weights(weights)
    groups, line = check_indices(parse_nbest(lines, name), name), 1
    while block := list(islice(groups, BLOCK)):
        ordered = sort_candidates(block, checked, name, line)
        line += sum(len(group.candidates) for group in block)
        if nbest:
            yield from format_nbest(ordered)
        else:
            yield from (group.candidates[0].text for group in ordered)


def sort_candidates(
    groups: Sequence[SentenceCandidates], weights: Mapping[str, float], name: str, line: int = 1
) -> Iterator[SentenceCandidates]:
    """Yield the sentences with their best candidates first. Ties keep their order.

    Args:
        groups: sentences of a list
        weights: weights by the name of the score
        name: what messages call the list
        line: line of the first candidate
    """
    lists = [[one.scores for one in group.candidates] for group in groups]
    candidates = Candidates.of(lists, tuple(weights), name, line)
    sums = weighted_totals(candidates, whole_weights(weights))
    for group, row in zip(groups, sums.tolist(), strict=True):
        order = sorted(range(len(group.candidates)), key=lambda index: -row[index])
        chosen = [group.candidates[index] for index in order]
        yield SentenceCandidates(
            group.index,
            [
                replace(one, total=sum(w * one.scores[score] for score, w in weights.items()))
                for one in chosen
            ],
        )


def read_weights(path: Path) -> dict[str, float]:
    """Read the weights of a file that `tune` wrote."""
    return parse_weights("\n".join(read_lines(path)), str(path))


def parse_weights(text: str, name: str) -> dict[str, float]:
    """Return the weights of JSON, ``{"weights": {NAME: WEIGHT, ...}}``.

    Args:
        text: the JSON
        name: what messages call it
    """
    try:
        weights = {str(key): float(one) for key, one in parse_json(text)["weights"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{name} does not contain weights. Expected the output of rerank tune, "
            '{"weights": {...}}.'
        ) from None
    return check_weights(weights, name)


def check_weights(weights: Mapping[str, float], name: str = "`weight`") -> dict[str, float]:
    """Return the weights above 0, scaled to at most 1.

    Args:
        weights: weights by the name of the score
        name: what messages call them
    """
    if not weights or not all(0 <= weight < math.inf for weight in weights.values()):
        raise UsageError(f"{name} has weights {dict(weights)}; expected numbers of 0 or more.")
    largest = max(weights.values())
    if largest == 0:
        raise UsageError(f"{name} has no weight above 0.")
    return {score: weight / max(largest, 1.0) for score, weight in weights.items() if weight}


FOLDS = 5
DRAWS = 100
"""Number of random choices of candidates, for their mean score."""
MAX_PARTS = 1000
"""Maximum number of steps of the grid between 0 and 1."""

ProgressCallback = Callable[[int], object]


def ignore(trials: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class WeightSearch:
    """The search for weights between 0 and 1 whose choices have the highest score (eq. 5.2)."""

    method: str = "mert"
    """grid: every point of a grid, as in the thesis; mert: exact search along lines (Och, 2003);
    both: lines also from the best point of the grid."""
    step: float = 0.1
    """Step of the grid, 1 / N for an integer N."""
    restarts: int = RESTARTS
    """Number of random points that lines start from."""
    seed: int = 1
    executor: Executor = ONE_PROCESS
    """Processes that share the grid."""

    def __post_init__(self) -> None:
        parts = self.parts
        if not parts or abs(parts * self.step - 1) > 1e-9 or SCORE_UNITS % parts:
            raise UsageError(
                f"`step` is {self.step}; expected 1 / N for an integer N, from 0.001 to 1, such as "
                "0.1, 0.05 or 0.25."
            )

    @property
    def parts(self) -> int:
        """Number of steps between 0 and 1, or 0 if the step is out of range."""
        return round(1 / self.step) if 1 / MAX_PARTS <= self.step <= 1 else 0

    def __call__(
        self,
        candidates: Candidates,
        statistics: CandidateStatistics,
        done: ProgressCallback = ignore,
    ) -> Weights:
        """Return the best weights. `done` is called with numbers of points and of starts."""
        first: tuple[Weights, ...] = ()
        if self.method != "mert":
            best, _ = grid_search(candidates, statistics, self.parts, self.executor, done)
            if self.method == "grid":
                return best
            first = (best,)
        return line_search(candidates, statistics, self.restarts, self.seed, first, done).weights

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that the method uses."""
        grid = {"step": self.step} if self.method != "mert" else {}
        lines = {"restarts": self.restarts, "seed": self.seed} if self.method != "grid" else {}
        return {"search": self.method, **grid, **lines}


def draw_folds(sentences: int, number: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Yield the sentences of each fold, in random order."""
    yield from np.array_split(np.random.default_rng(seed).permutation(sentences), number)


def cross_validate(
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
    number: int = FOLDS,
    done: ProgressCallback = ignore,
) -> float:
    """Return the score of choices by weights that are tuned without the fold of the sentence.

    All folds are scored as one corpus, so the score is comparable with that of weights tuned on
    all sentences.
    """
    sentences = len(candidates.scores)
    chosen = np.zeros(sentences, np.intp)
    for fold in draw_folds(sentences, number, search.seed):
        others = np.setdiff1d(np.arange(sentences), fold)
        weights = search(candidates.subset(others), statistics.subset(others), done)
        chosen[fold] = choices(candidates.subset(fold), weights)
    return statistics.score(chosen)


@dataclass(frozen=True)
class ScoreBounds:
    """Scores in percent without weights."""

    first: float
    """Score of the first candidates."""
    random: float
    """Mean score of random candidates."""
    random_deviation: float
    oracle_sentences: float
    """Score of the candidates with the best sentence scores."""
    oracle_corpus: float
    """Score of choices that no change in one sentence improves, a lower bound of the best."""


@dataclass(frozen=True)
class FeatureValue:
    """Scores in percent that show the value of a feature."""

    alone: float
    """Score of choices by the feature alone."""
    without: float | None
    """Score of choices by all other features, tuned without it; None if there is no other."""


def score_bounds(
    candidates: Candidates, statistics: CandidateStatistics, seed: int = 1, draws: int = DRAWS
) -> ScoreBounds:
    """Return the scores that need no weights."""
    rows = len(candidates.scores)
    rng = np.random.default_rng(seed)
    random = [statistics.score(rng.integers(0, candidates.sizes)) for _ in range(draws)]
    as_sentences = statistics.metric.by_sentence(statistics.counts).argmax(1)
    return ScoreBounds(
        statistics.score(np.zeros(rows, np.intp)),
        float(np.mean(random)),
        float(np.std(random)),
        statistics.score(as_sentences),
        statistics.score(greedy_oracle(statistics, as_sentences)),
    )


def greedy_oracle(statistics: CandidateStatistics, start: NDArray[np.intp]) -> NDArray[np.intp]:
    """Change the candidate of one sentence at a time while the corpus score rises, [sentences]."""
    counts, metric = statistics.counts, statistics.metric
    chosen = start.copy()
    sums = statistics.chosen(chosen).sum(0)
    best, changed = float(metric.values(sums)), True
    while changed:
        changed = False
        for index, (rows, current) in enumerate(zip(counts, chosen, strict=True)):
            possible = sums - rows[current] + rows
            values = metric.values(possible)
            other = int(values.argmax())
            if values[other] > best:
                best, changed = float(values[other]), True
                chosen[index], sums = other, possible[other]
    return chosen


def feature_values(
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
    done: ProgressCallback = ignore,
) -> dict[str, FeatureValue]:
    """Return the value of each feature, by name."""
    values = {}
    for name in candidates.names:
        alone = candidates.only([name])
        others = candidates.only([other for other in candidates.names if other != name])
        without = None
        if others.names:
            weights = search(others, statistics, done)
            without = statistics.score(choices(others, weights))
        values[name] = FeatureValue(statistics.score(choices(alone, equal_weights(alone))), without)
    return values
