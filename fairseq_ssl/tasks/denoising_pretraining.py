"""Pre-training on text alone: rebuild it from what noise has left of it (PoDA, section 2.2)."""

import logging
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.data import data_utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from fairseq_ssl.data.denoising_dataset import OnlineDenoisingDataset
from fairseq_ssl.data.id_noise import (
    IdNoise,
    WordBoundaries,
    describe_id_noises,
    parse_id_noise,
    read_lexicon,
    uses_mask,
)
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.tasks.translation_mixins import ValidationByAverage

logger = logging.getLogger(__name__)

NO_LANGUAGE = "None"
"""What fairseq-preprocess --only-source calls the side that is not there."""


@dataclass
class DenoisingPretrainingConfig(TranslationConfig):
    """The options of translation, and those of the noise."""

    noise: str = field(
        default="denoise",
        metadata={
            "help": "noises to put on the source, one after the other, with their options: as in "
            f"direct:keep=0.2,denoise (default: denoise); there are {describe_id_noises()}"
        },
    )
    noise_seed: Optional[int] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={"help": "seed of the noise, 0 or more (default: that of --seed)"},
    )
    noise_subwords: str = field(
        default="none",
        metadata={
            "help": "put noise on whole words, which these subwords form: sentencepiece, "
            "subword-nmt, or none: each token is a word (default: none)"
        },
    )
    noise_mask_token: str = field(
        default="<mask>",
        metadata={
            "help": "symbol of the dictionary that noises put in for a word they hide "
            "(default: <mask>)"
        },
    )
    seed: int = II("common.seed")


@register_task("denoising_pretraining", dataclass=DenoisingPretrainingConfig)
class DenoisingPretrainingTask(ValidationByAverage, TranslationTask):
    """Translation from noisy to clean text, of one language and one dictionary.

    The text is what fairseq-preprocess --only-source wrote, or the target side of parallel
    data. Noise is another one in each epoch of training, and always the same elsewhere. With
    --store-ema the averaged weights are validated.
    """

    cfg: DenoisingPretrainingConfig

    def __init__(self, cfg: DenoisingPretrainingConfig, dictionary: Any) -> None:
        super().__init__(cfg, dictionary, dictionary)
        self.settings = parse_id_noise(cfg.noise)
        self.boundaries = WordBoundaries.of(dictionary.symbols, cfg.noise_subwords)
        self.noise_seed = cfg.seed if cfg.noise_seed is None else cfg.noise_seed
        self.mask = dictionary.index(cfg.noise_mask_token)
        if self.mask == dictionary.unk():
            self.mask = None
        _check(cfg, self.noise_seed, masked=self.mask is not None or not uses_mask(self.settings))

    @classmethod
    def setup_task(cls, cfg: DenoisingPretrainingConfig, **options: Any) -> Any:
        """Find the languages and load the dictionary of the text."""
        folder = utils.split_paths(cfg.data)[0]
        if cfg.source_lang is None or cfg.target_lang is None:
            cfg.source_lang, cfg.target_lang = data_utils.infer_language_pair(folder)
        if cfg.source_lang is None or cfg.target_lang is None:
            raise ConfigurationError(
                f"{folder} holds no binarized text. Expected what fairseq-preprocess writes, as "
                "train.en-None.en.idx with --only-source, or train.de-en.en.idx."
            )
        # fairseq's default is -1, with which it can not combine splits
        cfg.upsample_primary = max(cfg.upsample_primary, 1)
        dictionary = cls.load_dictionary(str(_dictionary(cfg)))
        logger.info(f"[{_language(cfg)}] dictionary: {len(dictionary)} types")
        return cls(cfg, dictionary)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as translation does, and put noise on its text."""
        noise = self.noise
        text, sizes = self._text(split, epoch, combine, **options)
        self.datasets[split] = OnlineDenoisingDataset(
            *(text, sizes, self.target_dictionary, noise, self.noise_seed),
            renew=split == self.cfg.train_subset,
            shuffle=split != "test",
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )

    @cached_property
    def noise(self) -> IdNoise:
        """The noise; its words are counted in the first shard of the training text."""
        text, sizes = self._text(self.cfg.train_subset, epoch=1, combine=True)
        words = self.target_dictionary
        special = [*range(words.nspecial), *([] if self.mask is None else [self.mask])]
        lexicon = read_lexicon(text, sizes, self.boundaries, special, self.mask)
        logger.info(f"noise draws from {len(lexicon.words)} words")
        longest = self.cfg.max_source_positions - 1
        return IdNoise.of(self.settings, self.boundaries, lexicon, self.mask, longest)

    def _text(self, split: str, epoch: int, combine: bool, **options: Any) -> tuple[Any, Any]:
        """Load the sentences of a split and their sizes."""
        try:
            super().load_dataset(split, epoch, combine, **options)
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"{error}. Expected the text to denoise and, as noise draws its words from there, "
                f"that of {self.cfg.train_subset} (--train-subset)."
            ) from None
        pair = self.datasets.pop(split)
        return (pair.src, pair.src_sizes) if pair.tgt is None else (pair.tgt, pair.tgt_sizes)


def _language(cfg: DenoisingPretrainingConfig) -> Any:
    """Return the language of the text."""
    return cfg.source_lang if cfg.target_lang == NO_LANGUAGE else cfg.target_lang


def _dictionary(cfg: DenoisingPretrainingConfig) -> Path:
    return Path(utils.split_paths(cfg.data)[0]) / f"dict.{_language(cfg)}.txt"


def _check(cfg: DenoisingPretrainingConfig, seed: int, masked: bool) -> None:
    """Refuse settings that can not be followed."""
    if not masked:
        raise ConfigurationError(
            f"--noise {cfg.noise} hides words behind {cfg.noise_mask_token}, which the dictionary "
            f"lacks. Add it as its last line, which leaves the ids of the data as they are: echo "
            f"'{cfg.noise_mask_token} 1' >> {_dictionary(cfg)} (and likewise to every dictionary "
            "of the model that is to start from this one: its embeddings must be as many)."
        )
    if seed < 0:
        raise ConfigurationError(f"--noise-seed is {seed}; expected 0 or more.")
    if cfg.load_alignments or cfg.num_batch_buckets:
        raise ConfigurationError(
            "--load-alignments and --num-batch-buckets can not be had with text whose source is "
            "made in training. Leave them out."
        )
    if cfg.truncate_source and cfg.target_lang != NO_LANGUAGE:
        raise ConfigurationError(
            "--truncate-source cuts the source side of parallel data, and the text to denoise is "
            "the target side. Binarize that alone: fairseq-preprocess --only-source."
        )
