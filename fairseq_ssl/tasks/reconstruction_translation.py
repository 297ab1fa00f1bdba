"""Joint training of both translation directions on parallel and monolingual data (ByteNet)."""

import logging
import sys
from argparse import Namespace
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths
from omegaconf import II

from fairseq_ssl.criterions.reconstruction_loss import SOURCE, TARGET, ReconstructionLoss
from fairseq_ssl.data.bitext_with_mono import BitextWithMono, collate_candidates
from fairseq_ssl.data.dataset_sides import fit_length_bound
from fairseq_ssl.errors import ConfigurationError, DataError, reject_options
from fairseq_ssl.models.two_way_model import TwoWayModel
from fairseq_ssl.options import option
from fairseq_ssl.tasks.translation_mixins import allow_several_splits, register_task

logger = logging.getLogger(__name__)


@dataclass
class ReconstructionTranslationConfig(TranslationConfig):
    """Options of fairseq's translation task, with options for monolingual data."""

    reconstruction_source_text: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "monolingual text in the source language, such as FOLDER/train, binarized with "
        "fairseq-preprocess --only-source and the dictionary of the parallel data",
        usual="none",
    )
    reconstruction_target_text: Optional[str] = option(  # noqa: UP045
        None, "monolingual text in the target language, binarized in the same way", usual="none"
    )
    reconstruction_beam: int = option(
        5, "number of candidate translations per monolingual sentence", low=1
    )
    reconstruction_mixed_lengths: bool = option(
        False,
        "form batches from sentences of different lengths instead of similar lengths; required for "
        "models with batch norm if the batches are small",
    )
    seed: int = II("common.seed")
    max_tokens: Optional[int] = II("dataset.max_tokens")  # noqa: UP045


@register_task("reconstruction_translation", dataclass=ReconstructionTranslationConfig)
class ReconstructionTranslationTask(TranslationTask):
    """fairseq's translation task with two encoder-decoder models, one per direction."""

    cfg: ReconstructionTranslationConfig

    def __init__(self, cfg: ReconstructionTranslationConfig, source: Any, target: Any) -> None:
        super().__init__(cfg, source, target)
        _check(cfg)
        allow_several_splits(cfg)
        languages = cfg.source_lang, cfg.target_lang
        self.directions = {
            "-".join(pair): TranslationTask(_direction_config(cfg, *pair), *dictionaries)
            for pair, dictionaries in (
                (languages, (source, target)),
                (languages[::-1], (target, source)),
            )
        }
        self.generators: dict[str, Any] = {}

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split in both directions and, for the training split, the monolingual texts."""
        for task in self.directions.values():
            task.load_dataset(split, epoch, combine, **options)
        pairs, reversed_pairs = (task.datasets[split] for task in self.directions.values())
        if not _have_equal_lengths(pairs, reversed_pairs):
            raise DataError(
                f"{self.cfg.data} contains different pairs for {' and '.join(self.directions)} in "
                f"the split {split}. Remove the files of one direction."
            )
        is_training = split == self.cfg.train_subset
        if is_training:
            self.generators.clear()  # their length bound is fitted to the data of the epoch
        self.datasets[split] = BitextWithMono(
            pairs,
            reversed_pairs,
            self._load_texts() if is_training else {},
            self.cfg.seed,
            is_training and self.cfg.reconstruction_mixed_lengths,
            len(split_paths(self.cfg.data)),
        )

    def _load_texts(self) -> dict[str, Any]:
        texts = {
            SOURCE: (self.cfg.reconstruction_source_text, self.cfg.source_lang, self.src_dict),
            TARGET: (self.cfg.reconstruction_target_text, self.cfg.target_lang, self.tgt_dict),
        }
        return {
            name: self._load_text(Path(path), language, dictionary)
            for name, (path, language, dictionary) in texts.items()
            if path
        }

    def _folder(self) -> str:
        """Return the first data folder, which contains the dictionaries."""
        return str(split_paths(self.cfg.data)[0])

    def _load_text(self, path: Path, language: str, dictionary: Any) -> LanguagePairDataset:
        """Load the monolingual sentences within the length limits as both sources and targets."""
        impl = self.cfg.dataset_impl
        for name in (f"{path}.{language}-None.{language}", f"{path}.{language}"):
            text = data_utils.load_indexed_dataset(name, dictionary, impl)
            if text is not None:
                break
        else:
            folder = path if path.is_dir() else path.parent
            raise ConfigurationError(
                f"{path}.{language}-None.{language} does not exist. Pass the prefix of binarized "
                f"monolingual text, such as {folder / 'train'}. Create it with: fairseq-preprocess "
                f"--only-source -s {language} --srcdict {self._folder()}/dict.{language}.txt "
                f"--trainpref TEXT --destdir {folder}"
            )
        own = path.parent / f"dict.{language}.txt"
        if own.exists() and Dictionary.load(str(own)) != dictionary:
            raise ConfigurationError(
                f"{own} differs from the dictionary of the parallel data. Binarize the text again "
                f"with fairseq-preprocess --srcdict {self._folder()}/dict.{language}.txt."
            )
        limit = min(*self.max_positions(), self.cfg.max_tokens or sys.maxsize)
        short = (text.sizes <= limit).nonzero()[0]
        if not len(short):
            raise ConfigurationError(
                f"{path} contains no sentence of at most {limit} tokens, the lowest of the limits "
                "--max-source-positions, --max-target-positions and --max-tokens. Split the "
                "sentences, or set a higher limit."
            )
        logger.info(f"{path}: {len(short)} of {len(text)} sentences have at most {limit} tokens")
        sentences = text if len(short) == len(text) else _SentenceSubset(text, short)
        return LanguagePairDataset(
            *(sentences, sentences.sizes, dictionary),
            *(sentences, sentences.sizes, dictionary),
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
        )

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> TwoWayModel:
        """Build a `TwoWayModel` with one model per direction."""
        return TwoWayModel(
            {name: task.build_model(cfg, from_checkpoint) for name, task in self.directions.items()}
        )

    def build_criterion(self, cfg: Any, *options: Any, **named: Any) -> Any:
        """Build the loss, which must be a `ReconstructionLoss`."""
        criterion = super().build_criterion(cfg, *options, **named)  # 0.12.2 has no options
        if not isinstance(criterion, ReconstructionLoss):
            raise ConfigurationError(
                f"{type(criterion).__name__} trains one model, but --task "
                "reconstruction_translation trains two. Set --criterion reconstruction_loss."
            )
        return criterion

    def build_generator(self, models: Any, args: Any, *more: Any, **options: Any) -> Any:
        """Build a generator for the models that translate into --target-lang."""
        return super().build_generator(self._forward_models(models), args, *more, **options)

    def inference_step(self, generator: Any, models: Any, *more: Any, **options: Any) -> Any:
        """Decode (or score) a batch with the models that translate into --target-lang."""
        return super().inference_step(generator, self._forward_models(models), *more, **options)

    def _forward_models(self, models: Any) -> list[Any]:
        """Return the models that translate into --target-lang."""
        forward = next(iter(self.directions))
        return [
            model.models[forward] if isinstance(model, TwoWayModel) else model for model in models
        ]

    def train_step(
        self,
        sample: dict[str, Any],
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Any:
        """Translate monolingual text unless its loss weight is 0. Train on pairs and candidates."""
        candidates = {}
        weight = criterion.schedule.at(update_num)
        for name, direction in zip((SOURCE, TARGET), self.directions, strict=True):
            if name in sample and weight:
                hypotheses = self._translate(sample[name], model, direction)
                padding = self.directions[direction].target_dictionary.pad()
                collated = collate_candidates(hypotheses, padding, self.cfg.reconstruction_beam)
                candidates[name] = {**collated, "weight": weight}
        sample = {**sample, "candidates": candidates} if candidates else sample
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def _translate(self, text: dict[str, Any], two_way_model: Any, direction: str) -> Any:
        """Return each sentence's candidate translations, which fit the models' length limits.

        The model is in evaluation mode during the search, and in training mode after the search.
        """
        model = two_way_model.models[direction]
        if direction not in self.generators:
            generator = self._build_candidate_generator(model, direction)
            readable = min(*self.max_positions(), *two_way_model.max_positions())
            generator.max_len = min(generator.max_len, readable)
            self.generators[direction] = generator
        model.eval()
        generator = self.generators[direction]
        hypotheses = generator.generate([model], {"net_input": text["net_input"]})
        model.train()
        return hypotheses

    def _build_candidate_generator(self, model: Any, direction: str) -> Any:
        task = self.directions[direction]
        slope, offset = self._max_len(direction)
        args = Namespace(
            beam=self.cfg.reconstruction_beam,
            max_len_a=slope,
            max_len_b=offset,
            unnormalized=True,
        )
        return task.build_generator([model], args)

    def _max_len(self, direction: str) -> tuple[float, int]:
        """Return fairseq's max_len_a and max_len_b for a direction.

        The bound holds for 99.9% of the epoch's training pairs, and its mean is as low as possible.
        """
        pairs = self.directions[direction].datasets[self.cfg.train_subset]
        slope, offset = fit_length_bound(pairs.src_sizes, pairs.tgt_sizes)
        logger.info(f"{direction}: candidates have at most {slope} n + {offset} words")
        return slope, max(int(offset), 1)

    def max_positions(self) -> tuple[int, int]:
        """Return the maximum source and target lengths in tokens.

        Both are the lower of the two limits, because each language is the source of one direction.
        """
        limit = min(self.cfg.max_source_positions, self.cfg.max_target_positions)
        return limit, limit


def _have_equal_lengths(pairs: Any, reversed_pairs: Any) -> bool:
    """Return True if all sentence lengths in the pairs match those in the reversed pairs."""
    return all(
        np.array_equal(getattr(pairs, f"{side}_sizes"), getattr(reversed_pairs, f"{other}_sizes"))
        for side, other in (("src", "tgt"), ("tgt", "src"))
    )


class _SentenceSubset:
    """A dataset with a subset of the sentences in another dataset."""

    def __init__(self, text: Any, chosen: Any) -> None:
        self.text = text
        self.chosen = chosen
        self.sizes = text.sizes[chosen]

    def __getitem__(self, index: int) -> Any:
        return self.text[int(self.chosen[index])]

    def __len__(self) -> int:
        return len(self.chosen)


def _direction_config(
    cfg: ReconstructionTranslationConfig, source: str, target: str
) -> TranslationConfig:
    """Return the options of fairseq's translation task for one direction."""
    names = {field.name for field in fields(TranslationConfig)} - {"_name"}
    options = {name: getattr(cfg, name) for name in names}
    return TranslationConfig(**{**options, "source_lang": source, "target_lang": target})


def _check(cfg: ReconstructionTranslationConfig) -> None:
    """Reject equal source and target languages, and options that two models do not support."""
    if cfg.source_lang == cfg.target_lang:
        raise ConfigurationError(
            f"--source-lang and --target-lang are both {cfg.source_lang!r}. Expected two different "
            "languages."
        )
    names = ("eval_bleu", "load_alignments", "num_batch_buckets", "left_pad_target")
    options = {name: getattr(cfg, name) for name in (*names, "truncate_source")}
    reject_options("--task reconstruction_translation", options)
