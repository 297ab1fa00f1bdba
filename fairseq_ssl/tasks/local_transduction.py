"""Translation between texts that differ in few places."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.aggressive_decoding import AggressiveGenerator
from fairseq_ssl.tasks.right_to_left import RIGHT_TO_LEFT, RightToLeft


@dataclass
class LocalTransductionConfig(TranslationConfig):
    """The options of fairseq's translation, and how to decode."""

    aggressive: bool = field(
        default=False,
        metadata={
            "help": "write what greedy search writes in fewer steps: the source is the draft, "
            "and the decoder checks all of it at once; needs --beam 1 and a joined dictionary"
        },
    )
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
            if self.cfg.right_to_left:
                raise ConfigurationError("--right-to-left does not go with --aggressive.")
            if self.source_dictionary != self.target_dictionary:
                raise ConfigurationError(
                    "--aggressive takes the source for a draft, and source and target have other "
                    "dictionaries. Binarise with fairseq-preprocess --joined-dictionary."
                )
            if args.print_alignment or args.replace_unk is not None:
                raise ConfigurationError(
                    "--aggressive goes neither with --print-alignment nor with --replace-unk."
                )
            seq_gen_cls = AggressiveGenerator
        return super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )
