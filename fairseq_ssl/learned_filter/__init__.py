"""Learned filter for parallel corpora: a linear SVM with PHSIC and cross-entropy as features.

`train_filter` trains a filter. `score_pairs` and `keep_best` apply it to files. `PairFilter.read`
loads a filter that scores pairs in memory.

>>> from fairseq_ssl.learned_filter import PairFilter
>>> pair_filter = PairFilter.read("clean.filter", {"device": "cpu"})  # doctest: +SKIP
>>> pair_filter.scores([("a small test", "ein kleiner Test")])  # doctest: +SKIP
array([1.21])
"""

from fairseq_ssl.learned_filter.features import FeatureExtractor
from fairseq_ssl.learned_filter.learned_filter_job import (
    TrainingSummary,
    keep_best,
    score_pairs,
    train_filter,
)
from fairseq_ssl.learned_filter.pair_filter import PairFilter
from fairseq_ssl.learned_filter.score_selection import Selection

__all__ = [
    "FeatureExtractor",
    "PairFilter",
    "Selection",
    "TrainingSummary",
    "keep_best",
    "score_pairs",
    "train_filter",
]
