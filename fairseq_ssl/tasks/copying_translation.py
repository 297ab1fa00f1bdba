"""Translation with models that copy out-of-vocabulary words from the source (PoDA)."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils
from fairseq.data import AppendTokenDataset, LanguagePairDataset, StripTokenDataset, TruncateDataset
from fairseq.tasks.translation import TranslationTask

from fairseq_ssl.checkpoints.partial_init import load_side
from fairseq_ssl.data.dataset_sides import replace_side
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.errors import ConfigurationError, reject_options
from fairseq_ssl.generation.copying_search import AggressiveCopyingGenerator, is_copying_model
from fairseq_ssl.models.common import require_joint_dictionary
from fairseq_ssl.options import option
from fairseq_ssl.tasks.translation_mixins import (
    AggressiveConfig,
    AveragedValidationMixin,
    CopyingMixin,
    RightToLeftMixin,
    register_task,
)

logger = logging.getLogger(__name__)

CHECK_SENTENCES = 1000
"""Maximum number of training sources that are checked for <unk>."""


@dataclass
class CopyingTranslationConfig(AggressiveConfig):
    """Options of `AggressiveConfig`, with options for truncation and initialization."""

    truncate_source_words: Optional[int] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "maximum source length in tokens, excluding </s>; longer sources are truncated in training "
        "and decoding; PoDA uses 800 (section 3.2)",
        low=1,
        usual="no maximum",
    )
    truncate_target_words: Optional[int] = option(  # noqa: UP045
        None,
        "maximum length of training targets in tokens, excluding </s>; longer targets are "
        "truncated; PoDA uses 130 (section 3.2)",
        low=1,
        usual="no maximum",
    )
    init_encoder_only: Optional[str] = option(  # noqa: UP045
        None,
        "checkpoint from which only the encoder is initialized, including its embeddings (PoDA, "
        "table 9)",
        usual="random weights",
    )
    init_decoder_only: Optional[str] = option(  # noqa: UP045
        None,
        "checkpoint from which only the decoder is initialized, including its embeddings and copy "
        "attention (PoDA, table 9)",
        usual="random weights",
    )


@register_task("copying_translation", dataclass=CopyingTranslationConfig)
class CopyingTranslationTask(
    CopyingMixin, RightToLeftMixin, AveragedValidationMixin, TranslationTask
):
    """fairseq's translation task for models that copy out-of-vocabulary words.

    Out-of-vocabulary words get their own ids in fairseq-interactive and with raw text
    (--dataset-impl raw). Binarized text contains <unk> instead, unless the dictionary contains all
    words (see --copy-vocabulary). With --store-ema, validation uses the averaged weights.
    """

    cfg: CopyingTranslationConfig

    def __init__(self, cfg: CopyingTranslationConfig, source: Any, target: Any) -> None:
        require_joint_dictionary(source, target, "copying")
        _check(cfg)
        # Share one dictionary, so that out-of-vocabulary words have the same ids on both sides.
        super().__init__(cfg, source, source)

    @classmethod
    def load_dictionary(cls, filename: str) -> OovDictionary:
        """Load a dictionary that assigns ids to out-of-vocabulary words."""
        dictionary: OovDictionary = OovDictionary.load(filename)
        return dictionary

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build a copying model. Initialize its encoder or decoder if `init_*_only` is set."""
        model = super().build_model(cfg, from_checkpoint)
        if not is_copying_model(model):
            raise ConfigurationError(
                "--task copying_translation needs a model that can copy words, not a "
                f"{type(model).__name__}. Use --arch pointer_transformer or --task translation."
            )
        for side in ("encoder", "decoder"):
            path = getattr(self.cfg, f"init_{side}_only")
            if path is not None and not from_checkpoint:
                _initialize_side(model, side, Path(path))
        return model

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as fairseq does. Truncate sentences and reverse targets if configured."""
        super().load_dataset(split, epoch, combine, **options)
        pair = self.datasets[split]
        is_training = split == self.cfg.train_subset
        if is_training:
            self._warn_about_unknown_words(pair.src)
        if self.cfg.truncate_source_words is not None:
            self._truncate(pair, "src", self.cfg.truncate_source_words, f"sources of {split}")
        if self.cfg.truncate_target_words is not None and is_training and pair.tgt is not None:
            self._truncate(pair, "tgt", self.cfg.truncate_target_words, f"targets of {split}")
        self.reverse_split(split, options)

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, constraints: Any = None
    ) -> Any:
        """Return a dataset of the input sentences, truncated as in training."""
        max_words = self.cfg.truncate_source_words
        if max_words is not None:
            eos = self.source_dictionary.eos()
            src_tokens = [
                ids
                if len(ids) <= max_words + 1
                else ids[: max_words + 1].index_fill(0, ids.new([max_words]), eos)
                for ids in src_tokens
            ]
            src_lengths = [len(ids) for ids in src_tokens]
        return super().build_dataset_for_inference(src_tokens, src_lengths, constraints)

    def build_generator(
        self, models: Any, args: Any, seq_gen_cls: Any = None, *more: Any, **options: Any
    ) -> Any:
        """Build a generator as in `CopyingMixin`, or for aggressive decoding if it is enabled."""
        if self.cfg.aggressive:
            seq_gen_cls = AggressiveCopyingGenerator
        return super().build_generator(models, args, seq_gen_cls, *more, **options)

    def _warn_about_unknown_words(self, source: Any) -> None:
        unk = self.source_dictionary.unk()
        sample = [source[index] for index in range(min(len(source), CHECK_SENTENCES))]
        count = sum(int(ids.eq(unk).sum()) for ids in sample)
        if count:
            logger.warning(
                f"<unk> occurs {count} times in the first {len(sample)} sources. The original "
                "words cannot be copied. Binarize the data with a dictionary of all words and set "
                "--copy-vocabulary, or train on raw text (--dataset-impl raw)."
            )

    def _truncate(self, pair: LanguagePairDataset, side: str, max_words: int, name: str) -> None:
        """Truncate a side of `pair` to `max_words` tokens plus </s>. `name` is for the log."""
        eos = self.source_dictionary.eos()
        sizes = getattr(pair, f"{side}_sizes")
        count = int((sizes > max_words + 1).sum())
        logger.info(f"Truncated {count} of {len(sizes)} {name} to {max_words} tokens")
        text = StripTokenDataset(getattr(pair, side), eos)
        text = AppendTokenDataset(TruncateDataset(text, max_words), eos)
        replace_side(pair, side, text, sizes.clip(max=max_words + 1))


def _initialize_side(model: Any, side: str, path: Path) -> None:
    """Initialize the encoder or the decoder of `model` from a checkpoint."""
    if not path.is_file():
        raise ConfigurationError(
            f"{path} (--init-{side}-only) is not an existing file. Set the option to a checkpoint. "
            "To resume a training run, remove the option."
        )
    weights = checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"]
    loaded = load_side(model, side, weights, path)
    logger.info(f"Initialized the {side} with {loaded} tensors from {path}")


def _check(cfg: CopyingTranslationConfig) -> None:
    """Reject truncation with batch buckets, and `init_*_only` for both sides."""
    if cfg.num_batch_buckets:
        limits = ("truncate_source_words", "truncate_target_words")
        reject_options("--num-batch-buckets", {name: getattr(cfg, name) for name in limits})
    if cfg.init_encoder_only is not None and cfg.init_decoder_only is not None:
        raise ConfigurationError(
            "--init-encoder-only and --init-decoder-only cannot be used together. To initialize "
            "both sides, use --finetune-from-model."
        )
