"""Read, search, cross-validate and apply re-ranking weights."""

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
from fairseq_ssl.options import check, option
from fairseq_ssl.rerank.candidates import (
    SCORE_UNITS,
    Candidates,
    CandidateStatistics,
    Weights,
    choices,
    equal_weights,
    score_block,
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

DIGITS = 12
"""Number of digits to which weighted sums are rounded before they are compared."""
BLOCK = 10_000
"""Number of sentences that `apply_to_lines` keeps in memory."""


def apply(nbest: NBest, weights: Mapping[str, float]) -> list[str]:
    """For each sentence, return the candidate with the highest weighted sum of scores.

    The first candidate wins a tie.

    Args:
        nbest: n-best list
        weights: weights by score name, 0 or more; scores without a weight are ignored

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
    """Yield the best candidate for each sentence, for lists that do not fit into memory.

    Args:
        lines: lines of an n-best list in Moses format
        weights: weights by score name, 0 or more
        name: name of the list in messages
        nbest: whether to yield lines for all candidates, best first, with weighted sums as totals
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
    """Sort the candidates for each sentence, best first, and set totals to the weighted sums.

    Candidates with equal sums keep their order. To detect ties between decimal numbers, sums are
    rounded to 12 digits, relative to the sentence's largest weighted score.

    Args:
        groups: sentences with their candidates
        weights: weights by score name
        name: name of the list in messages
        line: line number of the first candidate, for messages
    """
    lists = [[candidate.scores for candidate in group.candidates] for group in groups]
    values = np.array(list(weights.values()))
    terms = score_block(lists, list(weights), name, line) * (values / values.max())
    largest = np.abs(terms).max((1, 2), initial=0)[:, None]
    sums = np.rint(terms.sum(2) / np.where(largest == 0, 1, largest) * 10**DIGITS)
    for group, row in zip(groups, sums.tolist(), strict=True):
        order = sorted(range(len(group.candidates)), key=lambda index: -row[index])
        chosen = [group.candidates[index] for index in order]
        yield SentenceCandidates(
            group.index,
            [
                replace(best, total=sum(w * best.scores[score] for score, w in weights.items()))
                for best in chosen
            ],
        )


def read_weights(path: str | Path) -> dict[str, float]:
    """Read weights from a JSON file in the format of `TunedWeights.content`."""
    return parse_weights("\n".join(read_lines(path)), str(path))


def parse_weights(text: str, name: str) -> dict[str, float]:
    """Parse JSON of the form ``{"weights": {NAME: WEIGHT, ...}}``.

    Args:
        text: JSON text
        name: name of the text in messages
    """
    try:
        weights = {str(key): float(weight) for key, weight in parse_json(text)["weights"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{name} is not JSON with numbers as weights. Expected output of fairseq-ssl rerank "
            'tune, such as: {"weights": {"lm": 1.0}}'
        ) from None
    return check_weights(weights, name)


def check_weights(weights: Mapping[str, float], name: str = "`weights`") -> dict[str, float]:
    """Return the weights above 0. Raise UsageError for negative, infinite or too small weights.

    Args:
        weights: weights by score name
        name: name of the weights in messages
    """
    if not weights or not all(0 <= weight < math.inf for weight in weights.values()):
        shown = ", ".join(f"{score}={weight}" for score, weight in weights.items()) or "no weights"
        raise UsageError(f"{name} contains {shown}. Expected finite weights >= 0, at least one.")
    largest = max(weights.values())
    if largest == 0:
        raise UsageError(f"{name} contains no weight above 0. Expected at least one.")
    checked = {score: weight for score, weight in weights.items() if weight}
    for score, whole in zip(checked, whole_weights(checked).tolist(), strict=True):
        if whole == 0:
            raise UsageError(
                f"In {name}, the weight of {score!r} is {checked[score]:.6g}, but the largest "
                f"weight is {largest:.6g}. Expected weights that are 0, or differ by a factor of "
                "at most 100,000."
            )
    return checked


DRAWS = 100
"""Number of random selections whose scores are averaged."""
MAX_PARTS = 1000
"""Maximum number of grid steps between 0 and 1."""

ProgressCallback = Callable[[int], object]


@dataclass(frozen=True)
class WeightSearch:
    """Search method for weights from 0 to 1 that maximize the corpus score.

    See Kiyono (2022), eq. 5.2.
    """

    method: str = option(
        "mert",
        "search method; grid: evaluate all grid points, as in Kiyono (2022); mert: exact line "
        "search (Och, 2003), which takes seconds for any number of features",
        choices=("grid", "mert"),
    )
    step: float = option(
        0.1,
        "grid step, 1/N for an integer N, 0.001 to 1; the grid for J features has (1/S + 1)^J "
        "points, for example 1.8 million for S = 0.1 and J = 6",
        metavar="S",
    )
    restarts: int = option(RESTARTS, "number of random start points of the line search", low=0)
    seed: int = option(1, "random seed of the line search and of the cross-validation", low=0)
    executor: Executor = ONE_PROCESS
    """`Executor` for the boxes of the grid search."""

    def __post_init__(self) -> None:
        check(self)
        parts = self.parts
        if not parts or abs(parts * self.step - 1) > 1e-9 or SCORE_UNITS % parts:
            raise UsageError(
                f"`step` is {self.step}. Expected 1 / N, from 0.001 to 1, for an integer N that "
                f"divides {SCORE_UNITS:,}, such as 0.1, 0.05 or 0.25."
            )

    @property
    def parts(self) -> int:
        """Number of grid steps between 0 and 1, or 0 if `step` is out of range."""
        return round(1 / self.step) if 1 / MAX_PARTS <= self.step <= 1 else 0

    def __call__(
        self,
        candidates: Candidates,
        statistics: CandidateStatistics,
        done: ProgressCallback = lambda trials: None,
    ) -> Weights:
        """Return the best weights. `done` receives the numbers of evaluated points or starts."""
        if self.method == "grid":
            return grid_search(candidates, statistics, self.parts, self.executor, done)[0]
        return line_search(candidates, statistics, self.restarts, self.seed, done).weights

    def parameters(self) -> dict[str, Any]:
        """Return the search parameters for a signature."""
        if self.method == "grid":
            return {"search": self.method, "step": self.step}
        return {"search": self.method, "restarts": self.restarts, "seed": self.seed}


def draw_folds(sentences: int, number: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Yield the sentence indices of each fold in a random partition."""
    yield from np.array_split(np.random.default_rng(seed).permutation(sentences), number)


def cross_validate(
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
    number: int,
    done: ProgressCallback = lambda trials: None,
) -> float:
    """Return the cross-validated corpus score. Each fold's weights are tuned on the other folds.

    All folds are scored as one corpus, so the score is comparable with the score of weights tuned
    on all sentences.
    """
    sentences = len(candidates.scores)
    chosen = np.zeros(sentences, np.intp)
    for fold in draw_folds(sentences, number, search.seed):
        others = np.setdiff1d(np.arange(sentences), fold)
        weights = search(candidates.subset(others), statistics.subset(others), done)
        chosen[fold] = choices(candidates.subset(fold), weights)
    return statistics.score(chosen)


@dataclass(frozen=True)
class FeatureValue:
    """Ablation scores of a feature in percent."""

    alone: float
    """Score of the candidates with the highest value of the feature."""
    without: float | None
    """Score of weights that are tuned without the feature, or None if it is the only feature."""


def score_bounds(
    candidates: Candidates, statistics: CandidateStatistics, seed: int = 1, draws: int = DRAWS
) -> dict[str, float]:
    """Return the scores of the first, random and oracle candidates in percent, by name.

    The score of the greedy corpus oracle is a lower bound on the best possible score.
    """
    rows = len(candidates.scores)
    rng = np.random.default_rng(seed)
    random = [statistics.score(rng.integers(0, candidates.sizes)) for _ in range(draws)]
    as_sentences = statistics.metric.by_sentence(statistics.counts).argmax(1)
    return {
        "first candidates": statistics.score(np.zeros(rows, np.intp)),
        "random candidates": float(np.mean(random)),
        "standard deviation of random": float(np.std(random)),
        "best by sentence": statistics.score(as_sentences),
        "best by corpus": statistics.score(greedy_oracle(statistics, as_sentences)),
    }


def greedy_oracle(statistics: CandidateStatistics, start: NDArray[np.intp]) -> NDArray[np.intp]:
    """Improve the corpus score greedily by changing the candidate for one sentence at a time.

    `start` and the result contain the index of a candidate for each sentence, [sentences].
    """
    counts, metric = statistics.counts, statistics.metric
    chosen = start.copy()
    sums = statistics.chosen(chosen).sum(0)
    best, changed = float(metric.values(sums)), True
    while changed:
        changed = False
        for index, (rows, current) in enumerate(zip(counts, chosen, strict=True)):
            possible = sums - rows[current] + rows
            values = metric.values(possible)
            new = int(values.argmax())
            if values[new] > best:
                best, changed = float(values[new]), True
                chosen[index], sums = new, possible[new]
    return chosen


def feature_values(
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
    done: ProgressCallback = lambda trials: None,
) -> dict[str, FeatureValue]:
    """Compute the ablation scores of all features, by name."""
    values = {}
    for name in candidates.names:
        alone = candidates.only([name])
        others = candidates.only([kept for kept in candidates.names if kept != name])
        without = None
        if others.names:
            weights = search(others, statistics, done)
            without = statistics.score(choices(others, weights))
        values[name] = FeatureValue(statistics.score(choices(alone, equal_weights(alone))), without)
    return values
