"""Translation, correction or summarizing by models that copy words they do not know (PoDA)."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils
from fairseq.data import (
    AppendTokenDataset,
    LanguagePairDataset,
    StripTokenDataset,
    TruncateDataset,
)
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_ssl.checkpoints.partial_init import load_side
from fairseq_ssl.data.dataset_sides import replace_side
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.aggressive_decoding import AGGRESSIVE
from fairseq_ssl.generation.copying_search import (
    AggressiveCopyingGenerator,
    CopyingGenerator,
    CopyingScorer,
    copies,
)
from fairseq_ssl.tasks.translation_mixins import RIGHT_TO_LEFT, RightToLeft, ValidationByAverage

logger = logging.getLogger(__name__)

LOOKED_AT = 1000
"""Sentences in which words are looked for whose surface was lost."""


@dataclass
class CopyingTranslationConfig(TranslationConfig):
    """The options of fairseq's translation, lengths to cut at, and what to start from."""

    truncate_source_words: Optional[int] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "cut every source after this many tokens, 1 or more, in training and "
            "decoding; 800 in PoDA, section 3.2 (default: never)"
        },
    )
    truncate_target_words: Optional[int] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "cut the targets to train on after this many tokens, 1 or more; 130 in PoDA, "
            "section 3.2 (default: never)"
        },
    )
    init_encoder_only: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "checkpoint from which the encoder starts, with the embeddings, and nothing "
            "else; PoDA, table 9 (default: at random)"
        },
    )
    init_decoder_only: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "checkpoint from which the decoder starts, with the embeddings and the copy "
            "attention, and nothing else; PoDA, table 9 (default: at random)"
        },
    )
    aggressive: bool = field(default=False, metadata={"help": AGGRESSIVE})
    right_to_left: bool = field(default=False, metadata={"help": RIGHT_TO_LEFT})


@register_task("copying_translation", dataclass=CopyingTranslationConfig)
class CopyingTranslationTask(RightToLeft, ValidationByAverage, TranslationTask):
    """fairseq's translation for a model that copies.

    A word that is not in the dictionary has an id of its own, from the lines that
    fairseq-interactive reads and from text as it is (--dataset-impl raw); binarized text has
    lost it, unless it was binarized with all its words (see --copy-vocabulary). With
    --store-ema the averaged weights are validated.
    """

    cfg: CopyingTranslationConfig

    def __init__(self, cfg: CopyingTranslationConfig, source: Any, target: Any) -> None:
        _check(cfg, joined=source == target)
        # one for both: the ids of unknown words must be the same
        super().__init__(cfg, source, source)

    @classmethod
    def load_dictionary(cls, filename: str) -> OovDictionary:
        """Load a dictionary that does not forget words it lacks."""
        dictionary: OovDictionary = OovDictionary.load(filename)
        return dictionary

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Make the model; one that no checkpoint fills may start with one side of another."""
        model = super().build_model(cfg, from_checkpoint)
        if not copies(model):
            raise ConfigurationError(
                "--task copying_translation is for models that copy, and this --arch does not. "
                "Take --arch pointer_transformer, or --task translation."
            )
        for side in ("encoder", "decoder"):
            path = getattr(self.cfg, f"init_{side}_only")
            if path is not None and not from_checkpoint:
                _start_side(model, side, Path(path))
        return model

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as translation does, and cut what is too long."""
        super().load_dataset(split, epoch, combine, **options)
        pair = self.datasets[split]
        is_training = split == self.cfg.train_subset
        if is_training:
            self._look_for_lost_words(pair.src)
        if self.cfg.truncate_source_words is not None:
            self._cut(pair, "src", self.cfg.truncate_source_words, f"sources of {split}")
        if self.cfg.truncate_target_words is not None and is_training and pair.tgt is not None:
            self._cut(pair, "tgt", self.cfg.truncate_target_words, f"targets of {split}")
        self.turn_targets(split, options)

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, constraints: Any = None
    ) -> Any:
        """Take sentences that come from elsewhere, cut as in training."""
        most = self.cfg.truncate_source_words
        if most is not None:
            eos = self.source_dictionary.eos()
            src_tokens = [
                ids if len(ids) <= most + 1 else ids[: most + 1].index_fill(0, ids.new([most]), eos)
                for ids in src_tokens
            ]
            src_lengths = [len(ids) for ids in src_tokens]
        return super().build_dataset_for_inference(src_tokens, src_lengths, constraints)

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build a search, or what scores references, that writes words of the source too."""
        if getattr(args, "print_alignment", None) or getattr(args, "replace_unk", None) is not None:
            raise ConfigurationError(
                "A model that copies puts source words in by itself: leave out --print-alignment "
                "and --replace-unk."
            )
        if getattr(args, "score_reference", False):
            return CopyingScorer(self.target_dictionary)
        if self.cfg.aggressive:
            seq_gen_cls = AggressiveCopyingGenerator
        return super().build_generator(
            models,
            args,
            seq_gen_cls or CopyingGenerator,
            extra_gen_cls_kwargs,
            prefix_allowed_tokens_fn,
        )

    def _look_for_lost_words(self, source: Any) -> None:
        unk = self.source_dictionary.unk()
        looked = [source[number] for number in range(min(len(source), LOOKED_AT))]
        lost = sum(int(ids.eq(unk).sum()) for ids in looked)
        if lost:
            logger.warning(
                f"the first {len(looked)} sources hold {lost} <unk>, which can not be copied as "
                "the words that they were. Binarize with a dictionary of all words (and set "
                "--copy-vocabulary), or train on text as it is (--dataset-impl raw)."
            )

    def _cut(self, pair: LanguagePairDataset, side: str, most: int, name: str) -> None:
        """Cut a side of a split after `most` tokens, before the end of the sentence."""
        eos = self.source_dictionary.eos()
        sizes = getattr(pair, f"{side}_sizes")
        logger.info(f"{int((sizes > most + 1).sum())} of {len(sizes)} {name} cut to {most} tokens")
        text = StripTokenDataset(getattr(pair, side), eos)
        text = AppendTokenDataset(TruncateDataset(text, most), eos)
        replace_side(pair, side, text, sizes.clip(max=most + 1))


def _start_side(model: Any, side: str, path: Path) -> None:
    if not path.is_file():
        raise ConfigurationError(
            f"{path}, of --init-{side}-only, does not exist. A training that goes on from its own "
            "checkpoint does not need it: leave it out."
        )
    weights = checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"]
    told = load_side(model, side, weights, path)
    logger.info(f"{told} weights of the {side} start from {path}")


def _check(cfg: CopyingTranslationConfig, joined: bool) -> None:
    """Refuse settings that can not be followed."""
    if not joined:
        raise ConfigurationError(
            "Copying needs the same words on both sides, and source and target have other "
            "dictionaries. Binarize with fairseq-preprocess --joined-dictionary."
        )
    cuts = {
        "--truncate-source-words": cfg.truncate_source_words,
        "--truncate-target-words": cfg.truncate_target_words,
    }
    for flag, most in cuts.items():
        if most is not None and most < 1:
            raise ConfigurationError(f"{flag} is {most}; expected 1 or more tokens.")
        if most is not None and cfg.num_batch_buckets:
            raise ConfigurationError(f"{flag} does not go with --num-batch-buckets. Leave one out.")
    if cfg.init_encoder_only is not None and cfg.init_decoder_only is not None:
        raise ConfigurationError(
            "--init-encoder-only and --init-decoder-only start one side and leave the other at "
            "random. To start both, use --finetune-from-model."
        )
