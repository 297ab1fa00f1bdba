"""Parts of several translation tasks: right-to-left models, validation with averaged weights."""

import json
import logging
from argparse import Namespace
from typing import Any

from fairseq_ssl.data.dataset_sides import reverse_rows, reverse_sentence, reverse_targets
from fairseq_ssl.errors import ConfigurationError, flag

logger = logging.getLogger(__name__)

RIGHT_TO_LEFT = (
    "read and write targets from their last word to their first, in training, validation and "
    "scoring alike; hypotheses and references are printed in that order; in fairseq-generate the "
    "checkpoint tells (default: from the first to the last)"
)
"""What --right-to-left does."""


class RightToLeft:
    """A task of this kind, whose options hold `right_to_left`, can turn its targets around.

    To be put before fairseq's translation task among the base classes.
    """

    cfg: Any
    datasets: dict[str, Any]
    target_dictionary: Any

    def __init__(self, cfg: Any, *dictionaries: Any) -> None:
        super().__init__(cfg, *dictionaries)  # type: ignore[call-arg]
        _check(cfg)

    def turn_targets(self, split: str, options: dict[str, Any]) -> None:
        """Turn the targets of a split around, if the task or the checkpoint says so.

        Args:
            split: that was loaded
            options: of load_dataset; fairseq-generate hands the checkpoint's own task on with them
        """
        trained = getattr(options.get("task_cfg"), "right_to_left", False)
        if trained and not self.cfg.right_to_left:
            logger.info("the model writes from right to left; the targets are turned around")
            self.cfg.right_to_left = True
        if not self.cfg.right_to_left:
            return
        _check(self.cfg)
        reverse_targets(self.datasets[split], self.target_dictionary.eos())

    def build_generator(self, models: Any, args: Any, *others: Any, **options: Any) -> Any:
        """Build what fairseq would, unless it has to know the order of the words."""
        if self.cfg.right_to_left and getattr(args, "constraints", None):
            raise ConfigurationError("--right-to-left does not go with --constraints.")
        if self.cfg.right_to_left and getattr(self.cfg, "aggressive", False):
            raise ConfigurationError("--right-to-left does not go with --aggressive.")
        return super().build_generator(models, args, *others, **options)  # type: ignore[misc]

    def _inference_with_bleu(self, generator: Any, sample: Any, model: Any) -> Any:
        """Compare sentences in the order in which they are read."""
        words = self.target_dictionary
        if self.cfg.right_to_left:
            generator = ReversedHypotheses(generator, words.eos())
            target = reverse_rows(sample["target"], words.pad(), words.eos())
            sample = {**sample, "target": target}
        return super()._inference_with_bleu(generator, sample, model)  # type: ignore[misc]


class ReversedHypotheses:
    """A generator of a right-to-left model, whose hypotheses are turned around."""

    def __init__(self, generator: Any, eos: int) -> None:
        self.generator = generator
        self.eos = eos

    def generate(self, models: Any, sample: Any, **options: Any) -> Any:
        """Search, and return tokens from the first word to the last."""
        return [
            [{**one, "tokens": reverse_sentence(one["tokens"], self.eos)} for one in hypotheses]
            for hypotheses in self.generator.generate(models, sample, **options)
        ]


def _check(cfg: Any) -> None:
    """Refuse what knows the order of the targets by itself."""
    for name in ("load_alignments", "num_batch_buckets"):
        if cfg.right_to_left and getattr(cfg, name):
            raise ConfigurationError(
                f"--right-to-left does not go with {flag(name)}. Leave one out."
            )


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
