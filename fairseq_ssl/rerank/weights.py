"""Weights of scores: read, checked, and applied to n-best lists (thesis, eq. 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import parse_json, read_lines
from fairseq_ssl.rerank.candidates import Candidates, weighted_totals, whole_weights
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
