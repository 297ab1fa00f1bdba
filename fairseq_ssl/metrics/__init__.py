"""Metrics of text, in the form of the metrics of sacreBLEU.

A metric is built with what hypotheses are compared with, has `corpus_score`, `sentence_score` and
`get_signature`, and returns scores in percent. `paired_bootstrap` compares two systems.
"""

from fairseq_ssl.metrics.bleu import Bleu, Chrf
from fairseq_ssl.metrics.classifier_scores import Accuracy
from fairseq_ssl.metrics.errant import Errant
from fairseq_ssl.metrics.gleu import Gleu
from fairseq_ssl.metrics.maxmatch.scores import M2
from fairseq_ssl.metrics.metric import MetricScore, paired_bootstrap
from fairseq_ssl.metrics.rouge import Rouge
from fairseq_ssl.metrics.significance import BootstrapResult

__all__ = [
    "M2",
    "Accuracy",
    "Bleu",
    "BootstrapResult",
    "Chrf",
    "Errant",
    "Gleu",
    "MetricScore",
    "Rouge",
    "paired_bootstrap",
]
