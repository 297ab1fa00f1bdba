"""Analyses and comparisons of trained models.

Each analysis takes checkpoints of one or more models and a data folder created by
fairseq-preprocess. It returns a result with values, tables and a figure. Call
`fairseq_ssl.register` first.

>>> import fairseq_ssl
>>> from fairseq_ssl.analysis import score_by_length
>>> fairseq_ssl.register()  # doctest: +SKIP
>>> models = {"absolute": ["absolute.pt"], "shifted": ["shifted.pt"]}
>>> result = score_by_length(models, "data-bin")  # doctest: +SKIP
>>> result.write("lengths")  # doctest: +SKIP

`tune_edit_confidence` tunes the decoding options of an edit tagger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_ssl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fairseq_ssl.analysis.configs import LengthBleuConfig as LengthBleuConfig
    from fairseq_ssl.analysis.configs import ShiftSimilarityConfig as ShiftSimilarityConfig
    from fairseq_ssl.analysis.configs import SwappedBleuConfig as SwappedBleuConfig
    from fairseq_ssl.analysis.configs import TokenWinsConfig as TokenWinsConfig
    from fairseq_ssl.analysis.edit_tuning import tune_edit_confidence as tune_edit_confidence
    from fairseq_ssl.analysis.length_bleu import score_by_length as score_by_length
    from fairseq_ssl.analysis.results import AnalysisResult as AnalysisResult
    from fairseq_ssl.analysis.shift_similarity import (
        compare_shifted_states as compare_shifted_states,
    )
    from fairseq_ssl.analysis.swapped_bleu import score_swapped as score_swapped
    from fairseq_ssl.analysis.token_wins import compare_gold_tokens as compare_gold_tokens

MODULES = {
    "configs": (
        "LengthBleuConfig",
        "ShiftSimilarityConfig",
        "SwappedBleuConfig",
        "TokenWinsConfig",
    ),
    "edit_tuning": ("tune_edit_confidence",),
    "length_bleu": ("score_by_length",),
    "results": ("AnalysisResult",),
    "shift_similarity": ("compare_shifted_states",),
    "swapped_bleu": ("score_swapped",),
    "token_wins": ("compare_gold_tokens",),
}
"""Public names by module. Modules are imported on first use, as most need torch and fairseq."""

__all__ = [name for names in MODULES.values() for name in names]
__getattr__ = lazy_names(__name__, MODULES)
