"""Translation, correction and scoring with trained models, for lists of lines and for files.

fairseq needs the tasks and architectures of its models: call `fairseq_ssl.register` first.

>>> import fairseq_ssl
>>> from fairseq_ssl.inference import back_translate, load_model
>>> fairseq_ssl.register()  # doctest: +SKIP
>>> model = load_model("checkpoint_best.pt", data_dir="data-bin")  # doctest: +SKIP
>>> model.translate(["ein kleiner Test"])  # doctest: +SKIP
['a small test']

`Corrector` corrects raw text with an edit tagger, `correct_file` a text of any size.
`back_translate_file` translates a text on all cores, GPUs or machines. `score_nbest_file` adds the
scores of a model to an n-best list, as features for `fairseq_ssl.rerank`.
"""

from fairseq_ssl.inference.back_translation import (
    TranslationModel,
    back_translate,
    back_translate_file,
    load_model,
)
from fairseq_ssl.inference.correction import CorrectionConfig, Corrector, correct_file
from fairseq_ssl.inference.nbest_scores import score_nbest_file
from fairseq_ssl.inference.scoring import ScoringConfig
from fairseq_ssl.inference.translation import DecodingConfig

__all__ = [
    "CorrectionConfig",
    "Corrector",
    "DecodingConfig",
    "ScoringConfig",
    "TranslationModel",
    "back_translate",
    "back_translate_file",
    "correct_file",
    "load_model",
    "score_nbest_file",
]
