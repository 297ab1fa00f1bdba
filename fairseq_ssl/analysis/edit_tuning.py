"""Which confidence a trained edit tagger should ask for: found on held-out sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

TrialOptions = dict[str, float]
Decode = Callable[[TrialOptions], Mapping[str, float]]
"""Corrects the sentences with these options, and returns the scores."""

GRID: dict[str, tuple[float, ...]] = {
    "edit_keep_bias": tuple(round(0.05 * step, 2) for step in range(13)),
    "edit_min_confidence": tuple(round(0.1 * step, 1) for step in range(10)),
    "edit_min_sentence_confidence": tuple(round(0.1 * step, 1) for step in range(10)),
}
"""What is tried of each option; the first value changes nothing."""


@dataclass(frozen=True)
class Trial:
    """Options and what came of them."""

    options: TrialOptions
    scores: Mapping[str, float]


def trials(decode: Decode, metric: str) -> Iterator[Trial]:
    """Try one option after the other, each with the best of those before.

    Of equal scores that of the lower value is the better one.
    """
    best = Trial({name: values[0] for name, values in GRID.items()}, {})
    best = Trial(best.options, decode(best.options))
    yield best
    for name, values in GRID.items():
        for value in values[1:]:
            options = {**best.options, name: value}
            trial = Trial(options, decode(options))
            yield trial
            if trial.scores[metric] > best.scores[metric]:
                best = trial
