"""Metrics with the interface of sacreBLEU's metrics.

A metric is created with its references or gold edits, and has the methods `corpus_score`,
`sentence_score` and `get_signature`. Scores are in percent. `paired_bootstrap` compares two
systems, and `score_systems` scores the outputs of several systems and seeds.

>>> from fairseq_ssl.metrics import Gleu
>>> metric = Gleu(references=[["a b c d x y"]], sources=["a b c d e f"])
>>> print(metric.corpus_score(["a b c d z z"]))
GLEU = 50.81
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "Accuracy": "classifier_scores",
    "Bleu": "bleu",
    "Chrf": "bleu",
    "Errant": "errant",
    "Gleu": "gleu",
    "MaxMatch": "maxmatch.scores",
    "MetricScore": "metric",
    "Rouge": "rouge",
    "paired_bootstrap": "metric",
    "score_systems": "tables",
}
"""Module of each public name. Modules are imported on use, so that commands start faster."""

__all__ = list(MODULES)


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
