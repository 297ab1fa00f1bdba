"""Denoising pre-training on monolingual text (PoDA, section 2.2)."""

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from fairseq_ssl.data.id_noise import (
    IdNoise,
    Lexicon,
    OnlineDenoisingDataset,
    WordBoundaries,
    describe_id_noises,
    parse_id_noise,
    sample_blocks,
    uses_mask,
)
from fairseq_ssl.errors import ConfigurationError, DataError, reject_options
from fairseq_ssl.options import option
from fairseq_ssl.tasks.translation_mixins import (
    AveragedValidationMixin,
    CopyingMixin,
    allow_several_splits,
    register_task,
)
from fairseq_ssl.text.spans import Spans
from fairseq_ssl.text.tokenization import SUBWORDS

logger = logging.getLogger(__name__)

MASK = "<mask>"
"""Dictionary symbol that replaces masked words."""
SCHEMES = tuple(SUBWORDS)
NO_LANGUAGE = "None"
"""Target language in file names written by fairseq-preprocess --only-source."""


@dataclass
class DenoisingPretrainingConfig(TranslationConfig):
    """Options of fairseq's translation task, with noise options."""

    noise: str = option(
        "shuffle",
        "noises to apply to the source, in order and with their options, such as "
        f"direct:keep=0.2,shuffle; choices: {describe_id_noises()}",
    )
    noise_subwords: ChoiceEnum(SCHEMES) = option(  # type: ignore[valid-type]
        "none",
        "subword scheme of the text, so that noise applies to complete words; none: each token is "
        "a word",
        choices=SCHEMES,
    )
    seed: int = II("common.seed")


@register_task("denoising_pretraining", dataclass=DenoisingPretrainingConfig)
class DenoisingPretrainingTask(CopyingMixin, AveragedValidationMixin, TranslationTask):
    """Translation from noised to clean text in one language, with one dictionary.

    The text is the output of fairseq-preprocess --only-source or the target side of parallel data.
    In training, the noise changes in each epoch. In validation, it is always the same. With
    --store-ema, validation uses the averaged weights.
    """

    cfg: DenoisingPretrainingConfig

    def __init__(self, cfg: DenoisingPretrainingConfig, dictionary: Any) -> None:
        super().__init__(cfg, dictionary, dictionary)
        self.settings = parse_id_noise(cfg.noise)
        self.boundaries = WordBoundaries.of(dictionary.symbols, cfg.noise_subwords)
        self.mask = dictionary.index(MASK)
        if self.mask == dictionary.unk():
            self.mask = None
        self.vocabulary = len(dictionary)
        _check(cfg, masked=self.mask is not None or not uses_mask(self.settings))

    @classmethod
    def setup_task(cls, cfg: DenoisingPretrainingConfig, **options: Any) -> Any:
        """Infer the languages, load the dictionary and return the task."""
        _infer_languages(cfg, Path(utils.split_paths(cfg.data)[0]))
        allow_several_splits(cfg)
        dictionary = cls.load_dictionary(str(_dictionary_path(cfg)))
        logger.info(f"[{_language(cfg)}] dictionary: {len(dictionary)} types")
        return cls(cfg, dictionary)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model. Restrict the words that noise inserts to the model's vocabulary."""
        model = super().build_model(cfg, from_checkpoint)
        self.vocabulary = getattr(model, "copy_vocabulary", self.vocabulary)
        return model

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as in fairseq's translation task, with the noised text as the source."""
        text, sizes = self._load_text(split, epoch, combine, **options)
        self.datasets[split] = OnlineDenoisingDataset(
            *(text, sizes, self.target_dictionary, self.noise, self.cfg.seed),
            renew=split == self.cfg.train_subset,
            shuffle=split != "test",
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )

    @cached_property
    def noise(self) -> IdNoise:
        """The noise for sources. Inserted words are sampled in proportion to their counts.

        The counts are read from the dictionary. If the text consists of subwords, the dictionary
        lacks words that consist of several subwords, so words are counted in a sample of lines from
        the first training shard.
        """
        dictionary = self.target_dictionary
        known = np.arange(len(dictionary)) < self.vocabulary
        known[[*range(dictionary.nspecial), *([] if self.mask is None else [self.mask])]] = False
        if self.cfg.noise_subwords == "none":
            words = Spans(np.arange(len(dictionary)), np.ones(len(dictionary), np.int64))
            counts = np.array(dictionary.count)
        else:
            text = self._load_text(self.cfg.train_subset, epoch=1, combine=True)
            words, _ = self.boundaries.split_words(sample_blocks(*text))
            counts = np.ones(len(words), np.int64)
        lexicon = Lexicon.counted(words, counts, known, self.mask)
        logger.info(f"noise: {len(lexicon.words)} words to sample from")
        max_length = self.cfg.max_source_positions - 1
        return IdNoise.of(self.settings, self.boundaries, lexicon, self.mask, max_length)

    def _load_text(self, split: str, epoch: int, combine: bool, **options: Any) -> tuple[Any, Any]:
        """Return the ids and line lengths of a split's target side, or of its only side."""
        try:
            super().load_dataset(split, epoch, combine, **options)
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"{error}. Binarize this split with fairseq-preprocess. For text in subwords, the "
                f"split {self.cfg.train_subset} (--train-subset) is also needed, because the noise "
                "samples its words."
            ) from None
        pair = self.datasets.pop(split)
        text = (pair.src, pair.src_sizes) if pair.tgt is None else (pair.tgt, pair.tgt_sizes)
        highest, symbols = sample_blocks(*text).ids.max(initial=0), len(self.target_dictionary)
        if highest >= symbols:
            raise DataError(
                f"The split {split} contains the id {highest}, but {_dictionary_path(self.cfg)} "
                f"has only {symbols} symbols. Use the dictionary with which the data was binarized."
            )
        return text


def _infer_languages(cfg: DenoisingPretrainingConfig, folder: Path) -> None:
    """Set missing languages in `cfg`, inferred from the file names in the data folder."""
    if cfg.source_lang is not None and cfg.target_lang is not None:
        return
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder. Pass a folder with binarized text.")
    names = [path.name.split(".") for path in folder.glob("*.*-*.*")]
    splits = {(*pair.split("-"),) for _, pair, side, *_ in names if side in pair.split("-")}
    pairs = sorted(pair for pair in splits if len(pair) == 2)
    if not pairs:
        raise ConfigurationError(
            f"{folder} contains no binarized text. Expected output of fairseq-preprocess, such as "
            "train.en-None.en.idx with --only-source, or train.de-en.en.idx."
        )
    requested = {cfg.source_lang, cfg.target_lang} - {None}
    matching = [pair for pair in pairs if requested <= {*pair}]
    if len(matching) != 1:
        raise ConfigurationError(
            f"{folder} contains {', '.join(map('-'.join, pairs))}. --source-lang and --target-lang "
            f"({' and '.join(sorted(requested)) or 'unset'}) match {len(matching)} pairs, not 1."
        )
    source, target = matching[0]
    is_swapped = cfg.source_lang == target or cfg.target_lang == source
    if is_swapped and target != NO_LANGUAGE:
        source, target = target, source
    cfg.source_lang, cfg.target_lang = source, target


def _language(cfg: DenoisingPretrainingConfig) -> Any:
    """Return the language of the text, which is the target language of parallel data."""
    return cfg.source_lang if cfg.target_lang == NO_LANGUAGE else cfg.target_lang


def _dictionary_path(cfg: DenoisingPretrainingConfig) -> Path:
    return Path(utils.split_paths(cfg.data)[0]) / f"dict.{_language(cfg)}.txt"


def _check(cfg: DenoisingPretrainingConfig, masked: bool) -> None:
    """Reject invalid options. `masked` is False if the dictionary lacks a required `MASK`."""
    if not masked:
        raise ConfigurationError(
            f"--noise {cfg.noise} masks words with {MASK}, which is not in the dictionary. Append "
            "it, also to the dictionaries of models that this model will initialize, because the "
            "number of embeddings must match. This command keeps all other ids: echo "
            f"'{MASK} 1' >> {_dictionary_path(cfg)}"
        )
    if cfg.seed < 0:
        raise ConfigurationError(f"--seed is {cfg.seed}. Expected 0 or more.")
    options = {name: getattr(cfg, name) for name in ("load_alignments", "num_batch_buckets")}
    reject_options("--task denoising_pretraining, which generates the sources", options)
    if cfg.truncate_source and cfg.target_lang != NO_LANGUAGE:
        raise ConfigurationError(
            "--truncate-source truncates the source side, but the text to denoise is the target "
            "side. Remove it, or binarize the text with fairseq-preprocess --only-source."
        )
