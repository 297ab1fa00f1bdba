"""Metrics with the same interface as sacreBLEU's metrics.

A metric is created with references or gold edits. Its methods are `corpus_score`, `sentence_score`
and `get_signature`. Scores are in percent. `paired_bootstrap` compares two systems, and
`score_systems` scores the outputs of several systems and seeds.

>>> from fairseq_ssl.metrics import Gleu
>>> metric = Gleu(references=[["a b c d x y"]], sources=["a b c d e f"])
>>> print(metric.corpus_score(["a b c d z z"]))
GLEU = 50.81
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_ssl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fairseq_ssl.metrics.bleu import Bleu as Bleu
    from fairseq_ssl.metrics.bleu import Chrf as Chrf
    from fairseq_ssl.metrics.classifier_scores import Accuracy as Accuracy
    from fairseq_ssl.metrics.errant import Errant as Errant
    from fairseq_ssl.metrics.gleu import Gleu as Gleu
    from fairseq_ssl.metrics.maxmatch.scores import MaxMatch as MaxMatch
    from fairseq_ssl.metrics.metric import MetricScore as MetricScore
    from fairseq_ssl.metrics.metric import paired_bootstrap as paired_bootstrap
    from fairseq_ssl.metrics.rouge import Rouge as Rouge
    from fairseq_ssl.metrics.tables import score_systems as score_systems

MODULES = {
    "bleu": ("Bleu", "Chrf"),
    "classifier_scores": ("Accuracy",),
    "errant": ("Errant",),
    "gleu": ("Gleu",),
    "maxmatch.scores": ("MaxMatch",),
    "metric": ("MetricScore", "paired_bootstrap"),
    "rouge": ("Rouge",),
    "tables": ("score_systems",),
}
"""Public names by module. Modules are imported on first use, so that commands start faster."""

__all__ = [name for names in MODULES.values() for name in names]
__getattr__ = lazy_names(__name__, MODULES)
