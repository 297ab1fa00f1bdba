"""Rerank n-best lists with weighted scores, or select among system outputs (post-ensemble).

Example:
    >>> from fairseq_ssl import rerank
    >>> nbest = rerank.NBest.parse(["0 ||| a cat ||| s= -1 t= -4", "0 ||| cat ||| s= -2 t= -1"])
    >>> tuned = rerank.tune(nbest, [["cat"]], rerank.TuningConfig("chrf", folds=0))
    >>> rerank.apply(nbest, tuned.weights)
    ['cat']
"""

from fairseq_ssl.rerank.ensemble_selection import post_ensemble
from fairseq_ssl.rerank.nbest import NBest, merge
from fairseq_ssl.rerank.tuning import TuningConfig, analyze, tune
from fairseq_ssl.rerank.weights import WeightSearch, apply, read_weights
from fairseq_ssl.rerank.word_vectors import VectorTraining, train_vectors

__all__ = [
    "NBest",
    "TuningConfig",
    "VectorTraining",
    "WeightSearch",
    "analyze",
    "apply",
    "merge",
    "post_ensemble",
    "read_weights",
    "train_vectors",
    "tune",
]
