"""Translation, classification, correction and scoring with trained models, for lines and files.

Call `fairseq_ssl.register` first. It registers the package's tasks and models with fairseq.

>>> import fairseq_ssl
>>> from fairseq_ssl.inference import load_model
>>> fairseq_ssl.register()  # doctest: +SKIP
>>> model = load_model("checkpoint_best.pt", data_dir="data-bin")  # doctest: +SKIP
>>> model.translate(["ein kleiner Test"])  # doctest: +SKIP
['a small test']

`TextClassifierPipeline` classifies texts. With imitators, it explains labels with subword windows.
`Corrector` corrects raw text with an edit tagger, and `correct_file` corrects a text of any size.
`back_translate_file` translates a text, in this process or on many cores, GPUs or machines.
`score_nbest_file` adds model scores to an n-best list, as features for `fairseq_ssl.rerank`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_ssl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fairseq_ssl.inference.back_translation import TranslationModel as TranslationModel
    from fairseq_ssl.inference.back_translation import back_translate as back_translate
    from fairseq_ssl.inference.back_translation import back_translate_file as back_translate_file
    from fairseq_ssl.inference.back_translation import load_model as load_model
    from fairseq_ssl.inference.classification import (
        TextClassifierPipeline as TextClassifierPipeline,
    )
    from fairseq_ssl.inference.correction import CorrectionConfig as CorrectionConfig
    from fairseq_ssl.inference.correction import Corrector as Corrector
    from fairseq_ssl.inference.correction import correct_file as correct_file
    from fairseq_ssl.inference.model_export import export as export
    from fairseq_ssl.inference.nbest_scores import score_nbest_file as score_nbest_file
    from fairseq_ssl.inference.scoring import ScoringConfig as ScoringConfig
    from fairseq_ssl.inference.translation import DecodingConfig as DecodingConfig

MODULES = {
    "back_translation": ("TranslationModel", "back_translate", "back_translate_file", "load_model"),
    "classification": ("TextClassifierPipeline",),
    "correction": ("CorrectionConfig", "Corrector", "correct_file"),
    "model_export": ("export",),
    "nbest_scores": ("score_nbest_file",),
    "scoring": ("ScoringConfig",),
    "translation": ("DecodingConfig",),
}
"""Public names by module. Modules are imported on first use, because some need numpy or torch."""

__all__ = [name for names in MODULES.values() for name in names]
__getattr__ = lazy_names(__name__, MODULES)
