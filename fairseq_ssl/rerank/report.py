"""What n-best candidates could give, what chance gives, and what each score is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.rerank.candidates import Candidates
from fairseq_ssl.rerank.selection import choices, equal_weights
from fairseq_ssl.rerank.statistics import Statistics
from fairseq_ssl.rerank.tuning import Done, Search, ignore

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


def bounds(
    candidates: Candidates, statistics: Statistics, seed: int = 1, draws: int = DRAWS
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


def greedy_oracle(statistics: Statistics, start: NDArray[np.intp]) -> NDArray[np.intp]:
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
    search: Search, candidates: Candidates, statistics: Statistics, done: Done = ignore
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
