"""Metrics with the interface of sacreBLEU's metrics.

A metric is created with its references or gold edits, and has the methods `corpus_score`,
`sentence_score` and `get_signature`. Scores are in percent. `paired_bootstrap` compares two
systems, and `score_systems` scores the outputs of several systems and seeds.

>>> from fairseq_ssl.metrics import Gleu
>>> metric = Gleu(references=[["a b c d x y"]], sources=["a b c d e f"])
>>> print(metric.corpus_score(["a b c d z z"]))
GLEU = 50.81
"""

from fairseq_ssl.metrics.bleu import Bleu, Chrf
from fairseq_ssl.metrics.classifier_scores import Accuracy
from fairseq_ssl.metrics.errant import Errant
from fairseq_ssl.metrics.gleu import Gleu
from fairseq_ssl.metrics.maxmatch.scores import M2
from fairseq_ssl.metrics.metric import MetricScore, paired_bootstrap
from fairseq_ssl.metrics.rouge import Rouge
from fairseq_ssl.metrics.tables import score_systems

__all__ = [
    "M2",
    "Accuracy",
    "Bleu",
    "Chrf",
    "Errant",
    "Gleu",
    "MetricScore",
    "Rouge",
    "paired_bootstrap",
    "score_systems",
]
