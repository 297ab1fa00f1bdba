"""Analyses and comparisons of trained models.

Each analysis takes checkpoints of one or more models and a data folder of fairseq-preprocess. It
returns a result with values, tables and a figure. Call `fairseq_ssl.register` first.

>>> import fairseq_ssl
>>> from fairseq_ssl.analysis import score_by_length
>>> fairseq_ssl.register()  # doctest: +SKIP
>>> models = {"absolute": ["absolute.pt"], "shifted": ["shifted.pt"]}
>>> result = score_by_length(models, "data-bin")  # doctest: +SKIP
>>> result.write("lengths")  # doctest: +SKIP

`tune_edit_confidence` tunes the decoding options of an edit tagger.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairseq_ssl.analysis.configs import (
        LengthBleuConfig,
        ShiftSimilarityConfig,
        SwappedBleuConfig,
        TokenWinsConfig,
    )
    from fairseq_ssl.analysis.edit_tuning import tune_edit_confidence
    from fairseq_ssl.analysis.length_bleu import score_by_length
    from fairseq_ssl.analysis.results import AnalysisResult
    from fairseq_ssl.analysis.shift_similarity import compare_shifted_states
    from fairseq_ssl.analysis.swapped_bleu import score_swapped
    from fairseq_ssl.analysis.token_wins import compare_gold_tokens

MODULES = {
    "AnalysisResult": "results",
    "LengthBleuConfig": "configs",
    "ShiftSimilarityConfig": "configs",
    "SwappedBleuConfig": "configs",
    "TokenWinsConfig": "configs",
    "compare_gold_tokens": "token_wins",
    "compare_shifted_states": "shift_similarity",
    "score_by_length": "length_bleu",
    "score_swapped": "swapped_bleu",
    "tune_edit_confidence": "edit_tuning",
}
"""Module of each public name. Modules are imported on use, since most import torch and fairseq."""

__all__ = [
    "AnalysisResult",
    "LengthBleuConfig",
    "ShiftSimilarityConfig",
    "SwappedBleuConfig",
    "TokenWinsConfig",
    "compare_gold_tokens",
    "compare_shifted_states",
    "score_by_length",
    "score_swapped",
    "tune_edit_confidence",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
