"""Translation between texts that differ in few tokens, with aggressive decoding (PBD)."""

from typing import Any

from fairseq.tasks.translation import TranslationTask

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.copying_search import AggressiveGenerator, is_copying_model
from fairseq_ssl.models.common import reject_attention, require_joint_dictionary
from fairseq_ssl.tasks.translation_mixins import AggressiveConfig, RightToLeftMixin, register_task


@register_task("local_transduction", dataclass=AggressiveConfig)
class LocalTransductionTask(RightToLeftMixin, TranslationTask):
    """fairseq's translation task with optional aggressive decoding, with the source as the draft.

    The task also supports models trained with `--task translation`.
    """

    cfg: AggressiveConfig

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as in fairseq's translation task. Reverse the targets if configured."""
        super().load_dataset(split, epoch, combine, **options)
        self.reverse_split(split, options)

    def build_generator(
        self, models: Any, args: Any, seq_gen_cls: Any = None, *more: Any, **options: Any
    ) -> Any:
        """Build fairseq's generator, or an `AggressiveGenerator` if `aggressive` is set."""
        if self.cfg.aggressive:
            require_joint_dictionary(self.source_dictionary, self.target_dictionary, "--aggressive")
            reject_attention("--aggressive, which returns no attention", args)
            _check_vocabularies(models, len(self.target_dictionary))
            seq_gen_cls = AggressiveGenerator
        return super().build_generator(models, args, seq_gen_cls, *more, **options)


def _check_vocabularies(models: Any, words: int) -> None:
    """Reject models that can generate only a part of the dictionary and copy other words."""
    for model in models:
        if is_copying_model(model) and model.copy_vocabulary < words:
            raise ConfigurationError(
                f"The model can generate only {model.copy_vocabulary} of the {words} dictionary "
                "entries and copies the others. To use --aggressive with such a model, set --task "
                "copying_translation."
            )
