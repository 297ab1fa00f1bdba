"""Validation with the moving average of the weights that fairseq keeps."""

import json
from argparse import Namespace
from typing import Any


class ValidationByAverage:
    """With --store-ema a task of this kind validates, and so chooses, the averaged weights.

    fairseq by itself only stores them. To be put before fairseq's translation among the base
    classes.
    """

    cfg: Any
    uses_ema = True
    """Tells fairseq's trainer to hand the averaged model on."""
    _bleu_of: Any = None
    """The averaged model that --eval-bleu was made to search with."""

    def train_step(self, *args: Any, ema_model: Any = None, **options: Any) -> Any:
        """Train as ever."""
        return super().train_step(*args, **options)  # type: ignore[misc]

    def valid_step(
        self, sample: Any, model: Any, criterion: Any, ema_model: Any = None, **options: Any
    ) -> Any:
        """Validate the averaged model where there is one, in loss and in BLEU."""
        if ema_model is None:
            return super().valid_step(sample, model, criterion, **options)  # type: ignore[misc]
        if self.cfg.eval_bleu and ema_model is not self._bleu_of:
            self._search_with(ema_model)
        return super().valid_step(sample, ema_model, criterion, **options)  # type: ignore[misc]

    def _search_with(self, model: Any) -> None:
        """Put a search of `model` in the place of that which fairseq made of the trained one."""
        settings = Namespace(**json.loads(self.cfg.eval_bleu_args))
        self.sequence_generator = self.build_generator([model], settings)  # type: ignore[attr-defined]
        self._bleu_of = model
