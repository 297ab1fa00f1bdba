"""Length normalization of log-probabilities: per token, SLOR, PenLP.

All functions take arrays with one number for each sentence. An empty sentence has length 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LogProbabilities = NDArray[np.float64]

PENALTY = 0.8
"""Alpha of PenLP (Lau et al., 2020)."""


def by_length(
    log_probabilities: LogProbabilities, lengths: LogProbabilities, penalty: float = 1.0
) -> LogProbabilities:
    """Return log P / length ** penalty, as in fairseq-generate. A penalty of 0 returns log P."""
    return log_probabilities / np.maximum(lengths, 1) ** penalty


def slor(
    log_probabilities: LogProbabilities, unigrams: LogProbabilities, lengths: LogProbabilities
) -> LogProbabilities:
    """Return SLOR, (log P - log Pu) / length, with unigrams Pu (Pauls and Klein, 2012)."""
    return (log_probabilities - unigrams) / np.maximum(lengths, 1)


def penalised(
    log_probabilities: LogProbabilities, lengths: LogProbabilities, alpha: float = PENALTY
) -> LogProbabilities:
    """Return PenLP: log P / ((5 + length) / (5 + 1)) ** alpha (Lau et al., 2020)."""
    return log_probabilities / ((5.0 + lengths) / (5.0 + 1.0)) ** alpha


def unigram_log_probabilities(counts: LogProbabilities) -> LogProbabilities:
    """Return log Pu of each symbol, [symbols], with add-one smoothing."""
    smoothed = counts + 1.0
    return np.asarray(np.log(smoothed / smoothed.sum()))
