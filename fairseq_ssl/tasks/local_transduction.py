"""Translation between texts that differ in few places."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.aggressive_decoding import AGGRESSIVE, AggressiveGenerator
from fairseq_ssl.generation.copying_search import copies
from fairseq_ssl.tasks.translation_mixins import RIGHT_TO_LEFT, RightToLeft


@dataclass
class LocalTransductionConfig(TranslationConfig):
    """The options of fairseq's translation, and how to decode."""

    aggressive: bool = field(default=False, metadata={"help": AGGRESSIVE})
    right_to_left: bool = field(default=False, metadata={"help": RIGHT_TO_LEFT})


@register_task("local_transduction", dataclass=LocalTransductionConfig)
class LocalTransductionTask(RightToLeft, TranslationTask):
    """fairseq's translation, which can take the source for a draft of the target.

    Any model that was trained with `--task translation` decodes under this task.
    """

    cfg: LocalTransductionConfig

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as translation does."""
        super().load_dataset(split, epoch, combine, **options)
        self.turn_targets(split, options)

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build the search that fairseq would, or the aggressive one."""
        if self.cfg.aggressive:
            if self.source_dictionary != self.target_dictionary:
                raise ConfigurationError(
                    "--aggressive takes the source for a draft, and source and target have other "
                    "dictionaries. Binarize with fairseq-preprocess --joined-dictionary."
                )
            replaced = getattr(args, "replace_unk", None) is not None
            if replaced or getattr(args, "print_alignment", None):
                raise ConfigurationError(
                    "--aggressive goes neither with --print-alignment nor with --replace-unk."
                )
            _check_vocabularies(models, len(self.target_dictionary))
            seq_gen_cls = AggressiveGenerator
        return super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )


def _check_vocabularies(models: Any, words: int) -> None:
    """Refuse models that write some words of the dictionary only by copying them."""
    for model in models:
        if copies(model) and model.copy_vocabulary < words:
            raise ConfigurationError(
                f"The model writes {model.copy_vocabulary} of the {words} words of the dictionary "
                "and copies the others, which this task knows nothing of. Give --task "
                "copying_translation, which has --aggressive too."
            )
