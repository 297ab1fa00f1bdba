"""Candidates for tests: random scores, or integers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from fairseq_ssl.metrics.bleu import BleuSums
from fairseq_ssl.rerank.candidates import Candidates, CandidateStatistics

Scores = Sequence[Sequence[Sequence[float]]]
"""Scores by sentence, candidate and feature."""


def texts(seed: int, sentences: int, most: int, words: str = "a b c d e f g h") -> list[list[str]]:
    """Draw short candidates from few words, sometimes empty ones."""
    draw = random.Random(seed)
    return [
        [
            " ".join(
                draw.choices(words.split(), k=draw.randrange(0 if draw.random() < 0.1 else 3, 9))
            )
            for _ in range(draw.randint(1, most))
        ]
        for _ in range(sentences)
    ]


def block(scores: Scores) -> Candidates:
    """Return candidates with these scores."""
    names = [f"f{n}" for n in range(len(scores[0][0]))]
    lists = [[dict(zip(names, row, strict=True)) for row in rows] for rows in scores]
    return Candidates.of(lists)


def statistics(lists: list[list[str]], seed: int = 0) -> CandidateStatistics:
    """Return counts for BLEU against drawn references."""
    references = [one[0] for one in texts(seed, len(lists), 1)]
    return CandidateStatistics.of(BleuSums("none"), lists, [references])


@st.composite
def small_cases(
    draw: st.DrawFn, features: int = 3, span: int = 4
) -> tuple[Scores, list[list[str]]]:
    """Generate sentences with small integer scores, so that there are ties."""
    seed = draw(st.integers(0, 10_000))
    lists = texts(seed, draw(st.integers(1, 5)), 4)
    drawn = np.random.default_rng(seed)
    scores = [drawn.integers(-span, span + 1, (len(rows), features)).tolist() for rows in lists]
    return scores, lists
