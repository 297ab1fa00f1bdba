"""The candidate that some weights choose (thesis, eq. 5.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.rerank.candidates import UNITS, Candidates, Numbers, Weights


def totals(candidates: Candidates, weights: Weights) -> Numbers:
    """Return the weighted sums, [sentences, candidates], exact, in millionths of a unit."""
    sums: Numbers = candidates.scores @ weights.astype(np.float64)
    return sums


def choices(candidates: Candidates, weights: Weights) -> NDArray[np.intp]:
    """Return the place of each sentence's best candidate, [sentences]; of equal ones the first."""
    places: NDArray[np.intp] = totals(candidates, weights).argmax(1)
    return places


def equal_weights(candidates: Candidates) -> Weights:
    """Return a weight of 1 for every feature: the plain sum of all."""
    return np.full(len(candidates.names), UNITS, np.int64)
