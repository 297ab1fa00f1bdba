"""Mixins for translation tasks: copying, reversed targets, validation with averaged weights."""

import json
import logging
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from fairseq import tasks
from fairseq.tasks.translation import TranslationConfig

from fairseq_ssl.data.dataset_sides import reverse_rows, reverse_sentence, reverse_targets
from fairseq_ssl.errors import reject_options
from fairseq_ssl.generation.copying_search import CopyingGenerator, CopyingScorer, is_copying_model
from fairseq_ssl.models.common import reject_attention
from fairseq_ssl.options import checked, option

logger = logging.getLogger(__name__)

register_task = checked(tasks.register_task, "setup_task")
"""fairseq's decorator `register_task`, extended to check options before a task is built."""


@dataclass
class RightToLeftConfig(TranslationConfig):
    """Options of fairseq's translation task, with an option for right-to-left targets."""

    right_to_left: bool = option(
        False,
        "reverse the word order of targets in training, validation and scoring; fairseq-generate "
        "reads this option from the checkpoint and prints reversed hypotheses and references",
        usual="left to right",
    )


@dataclass
class AggressiveConfig(RightToLeftConfig):
    """Options of `RightToLeftConfig` and an option for aggressive decoding."""

    aggressive: bool = option(
        False,
        "use aggressive decoding, a greedy search that needs fewer steps because it verifies the "
        "source as a draft; the output equals that of greedy search up to rounding; needs --beam 1 "
        "and a joint dictionary",
    )


def allow_several_splits(cfg: Any) -> None:
    """Set the upsampling ratio to at least 1. fairseq's default, -1, fails with several splits."""
    cfg.upsample_primary = max(cfg.upsample_primary, 1)


class CopyingMixin:
    """Mixin for decoding and scoring with models that copy words.

    Among the base classes, this mixin must precede fairseq's TranslationTask.
    """

    target_dictionary: Any

    def build_generator(
        self, models: Any, args: Any, seq_gen_cls: Any = None, *more: Any, **options: Any
    ) -> Any:
        """Build a generator that copies words, or a scorer if `args.score_reference` is set.

        For models that do not copy words, build fairseq's generator or scorer.
        """
        parent: Any = super()
        if not all(map(is_copying_model, models)):
            return parent.build_generator(models, args, seq_gen_cls, *more, **options)
        reject_attention("a model that copies out-of-vocabulary words itself", args)
        if getattr(args, "score_reference", False):
            return CopyingScorer(self.target_dictionary)
        seq_gen_cls = seq_gen_cls or CopyingGenerator
        return parent.build_generator(models, args, seq_gen_cls, *more, **options)


class RightToLeftMixin:
    """Mixin for right-to-left targets in a translation task with `RightToLeftConfig`.

    Among the base classes, this mixin must precede fairseq's TranslationTask.
    """

    cfg: Any
    datasets: dict[str, Any]
    target_dictionary: Any

    def __init__(self, cfg: Any, *dictionaries: Any) -> None:
        super().__init__(cfg, *dictionaries)  # type: ignore[call-arg]
        allow_several_splits(cfg)
        _check(cfg)

    def reverse_split(self, split: str, options: dict[str, Any]) -> None:
        """Reverse a split's targets if `right_to_left` is set in this task or in the checkpoint.

        Args:
            split: name of a loaded split.
            options: the keyword arguments of `load_dataset`. fairseq-generate passes the task
                options of the checkpoint as `task_cfg`.
        """
        trained = getattr(options.get("task_cfg"), "right_to_left", False)
        if trained and not self.cfg.right_to_left:
            logger.info("The checkpoint contains a right-to-left model. Reversing the targets.")
            self.cfg.right_to_left = True
        if not self.cfg.right_to_left:
            return
        _check(self.cfg)
        reverse_targets(self.datasets[split], self.target_dictionary.eos())

    def build_generator(self, models: Any, args: Any, *more: Any, **options: Any) -> Any:
        """Build the generator. Reject options that do not work with right-to-left targets."""
        if self.cfg.right_to_left:
            searches = {
                "constraints": getattr(args, "constraints", None),
                "aggressive": getattr(self.cfg, "aggressive", False),
            }
            reject_options("--right-to-left", searches)
        return super().build_generator(models, args, *more, **options)  # type: ignore[misc]

    def _inference_with_bleu(self, generator: Any, sample: Any, model: Any) -> Any:
        """Compute BLEU for --eval-bleu, with right-to-left sentences reversed to reading order."""
        words = self.target_dictionary
        if self.cfg.right_to_left:
            generator = ReversedHypotheses(generator, words.eos())
            target = reverse_rows(sample["target"], words.pad(), words.eos())
            sample = {**sample, "target": target}
        return super()._inference_with_bleu(generator, sample, model)  # type: ignore[misc]


class ReversedHypotheses:
    """A wrapper around a generator that reverses the hypotheses of a right-to-left model."""

    def __init__(self, generator: Any, eos: int) -> None:
        self.generator = generator
        self.eos = eos

    def generate(self, models: Any, sample: Any, **options: Any) -> Any:
        """Return the hypotheses of the wrapped generator, with tokens reversed to reading order."""
        return [
            [
                {**hypothesis, "tokens": reverse_sentence(hypothesis["tokens"], self.eos)}
                for hypothesis in hypotheses
            ]
            for hypotheses in self.generator.generate(models, sample, **options)
        ]


def _check(cfg: Any) -> None:
    """If `right_to_left` is set, reject data options that depend on the word order."""
    if cfg.right_to_left:
        names = ("load_alignments", "num_batch_buckets")
        reject_options("--right-to-left", {name: getattr(cfg, name) for name in names})


class AveragedValidationMixin:
    """Mixin for validation and checkpoint selection with the averaged weights of --store-ema.

    fairseq stores these weights, but does not use them in validation. Among the base classes, this
    mixin must precede fairseq's TranslationTask.
    """

    cfg: Any
    uses_ema = True
    """True, so that fairseq's trainer passes the averaged model as `ema_model`."""
    _bleu_model: Any = None
    """The averaged model with which the generator for --eval-bleu was built."""

    def train_step(self, *args: Any, ema_model: Any = None, **options: Any) -> Any:
        """Run fairseq's training step without `ema_model`, which it does not accept."""
        return super().train_step(*args, **options)  # type: ignore[misc]

    def valid_step(
        self, sample: Any, model: Any, criterion: Any, ema_model: Any = None, **options: Any
    ) -> Any:
        """Compute loss and BLEU of the averaged model, or of `model` if `ema_model` is None."""
        if ema_model is None:
            return super().valid_step(sample, model, criterion, **options)  # type: ignore[misc]
        if self.cfg.eval_bleu and ema_model is not self._bleu_model:
            settings = Namespace(**json.loads(self.cfg.eval_bleu_args))
            self.sequence_generator = self.build_generator([ema_model], settings)  # type: ignore[attr-defined]
            self._bleu_model = ema_model
        return super().valid_step(sample, ema_model, criterion, **options)  # type: ignore[misc]
