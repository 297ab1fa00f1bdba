"""Translation with tagged data mixtures, noisy beam search and fluency boost.

The task trains on genuine and synthetic data, and generates synthetic data (Kiyono, 2022, sections
4.3.1 and 5.3.3).
"""

import glob
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq.data import ConcatDataset, LanguagePairDataset, PrependTokenDataset, data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths

from fairseq_ssl.data.dataset_sides import replace_side
from fairseq_ssl.data.mixing import MixedPairs, Mixture, mixture_counts
from fairseq_ssl.errors import ConfigurationError, nearest, reject_options
from fairseq_ssl.generation.fluency_boost import Fluency, FluencyBoost
from fairseq_ssl.generation.noisy_beam import (
    CANDIDATE,
    GRANULARITIES,
    BeamNoise,
    NoisyGenerator,
)
from fairseq_ssl.options import option
from fairseq_ssl.tasks.translation_mixins import RightToLeftConfig, RightToLeftMixin, register_task

logger = logging.getLogger(__name__)

SPLIT_VALUE = re.compile(r"(?P<split>[^=,\s]+)=(?P<value>[^=,\s]+)")


@dataclass
class TaggedTranslationConfig(RightToLeftConfig):
    """Options of fairseq's translation task, with tags, mixtures and options for generation."""

    source_tags: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "tags to prepend to the sources of training splits, SPLIT=TAG,..., such as train1=<BT>, or "
        "../bt/train=<BT> for a split in another folder (see --mix-weights); the source dictionary "
        "must contain the tags",
        usual="no tags",
    )
    mix_weights: Optional[str] = option(  # noqa: UP045
        None,
        "training splits and their sampling weights, SPLIT=WEIGHT,..., such as "
        "train=1,bt=0.5,ft=0.5; a split in another folder is written FOLDER/SPLIT",
        usual="all of train, train1, ..., as in fairseq",
    )
    mix_epoch_pairs: int = option(
        0,
        "number of pairs per epoch with --mix-weights; each epoch continues after the last pair of "
        "the previous epoch; memory use is 17 bytes per pair",
        low=0,
        usual="the smallest number with which an epoch contains all pairs of each split",
    )

    noisy_beam_beta: float = option(
        0.0,
        "noise strength in beam search (beta_random in Kiyono, 2022, who uses 6); at each step, r "
        "* beta_random is added to each score, with r uniform in [0, 1)",
        low=0,
    )
    noisy_beam_granularity: ChoiceEnum(GRANULARITIES) = option(  # type: ignore[valid-type]
        CANDIDATE,
        f"unit for which noisy beam search draws a random number; a {CANDIDATE} is a hypothesis "
        "extended by one of its possible next words",
        choices=GRANULARITIES,
    )
    noisy_beam_seed: int = option(
        1, "random seed of noisy beam search; noise also depends on sentence and hypothesis"
    )
    fluency_boost_lm: Optional[str] = option(  # noqa: UP045
        None,
        "checkpoint of a language model for fluency boost (Ge et al., 2018), which keeps only "
        "hypotheses that are less fluent than their source",
        usual="no fluency boost",
    )
    fluency_boost_ratio: float = option(
        1.05,
        "minimum ratio of source fluency to hypothesis fluency (sigma in Ge et al., 2018); fluency "
        "is 1 / (1 + cross-entropy per token in nats)",
        above=0,
    )
    fluency_boost_data: Optional[str] = option(  # noqa: UP045
        None, "folder that contains the dict.txt of the language model in --fluency-boost-lm"
    )


@register_task("tagged_translation", dataclass=TaggedTranslationConfig)
class TaggedTranslationTask(RightToLeftMixin, TranslationTask):
    """fairseq's translation task with tags, data mixtures, noisy beam search and fluency boost."""

    cfg: TaggedTranslationConfig

    def __init__(self, cfg: TaggedTranslationConfig, source: Any, target: Any) -> None:
        super().__init__(cfg, source, target)
        self.noise = BeamNoise(cfg.noisy_beam_beta, cfg.noisy_beam_granularity, cfg.noisy_beam_seed)
        self.tags = _parse_tags(cfg.source_tags or "", source)
        self.weights = _parse_weights(cfg.mix_weights or "")
        _check_data_options(cfg, bool(self.tags), bool(self.weights))

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split or a mixture of splits. Prepend tags and reverse targets if configured."""
        folders = split_paths(self.cfg.data)
        folder = Path(folders[(epoch - 1) % len(folders)])
        if split == self.cfg.train_subset:
            self._check_tags(list(map(Path, folders)))
            if combine and self.cfg.mix_epoch_pairs and not self.weights:  # when training starts
                raise ConfigurationError("--mix-epoch-pairs needs --mix-weights. Set both or none.")
        if self.weights and split == self.cfg.train_subset:
            self.datasets[split] = self._load_mixture(folder)
        else:
            super().load_dataset(split, epoch, combine, **options)
            if self.tags:
                self._prepend_tags(self.datasets[split], split)
        self.reverse_split(split, options)

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, constraints: Any = None
    ) -> Any:
        """Return a dataset of the input sentences, without tags."""
        if self.tags:
            logger.warning(
                "--source-tags applies to splits only. No tags are added to input lines."
            )
        return super().build_dataset_for_inference(src_tokens, src_lengths, constraints)

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build fairseq's generator or a `NoisyGenerator`, with fluency boost if configured."""
        is_scoring = getattr(args, "score_reference", False)
        if self.noise.beta and not is_scoring:
            _check_search(args, prefix_allowed_tokens_fn)
            seq_gen_cls = NoisyGenerator
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "noise": self.noise}
        generator = super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )
        if self.cfg.fluency_boost_lm and not is_scoring:
            return self._add_fluency_boost(generator)
        return generator

    def _add_fluency_boost(self, generator: Any) -> FluencyBoost:
        """Wrap a generator to filter its hypotheses with a language model."""
        assert self.cfg.fluency_boost_lm is not None
        reject_options("--fluency-boost-lm", {"right_to_left": self.cfg.right_to_left})
        folder = self.cfg.fluency_boost_data
        fluency = Fluency.load(Path(self.cfg.fluency_boost_lm), Path(folder) if folder else None)
        sides = self.source_dictionary, self.target_dictionary
        tags = set(self.tags.values())
        return FluencyBoost(generator, fluency, *sides, self.cfg.fluency_boost_ratio, tags)

    def _load_mixture(self, folder: Path) -> MixedPairs:
        """Load the splits in --mix-weights as a mixture. Prepend their tags, if any."""
        pairs = [self._load_sides(folder / name) for name in self.weights]
        sizes = [len(source) for source, _ in pairs]
        counts = mixture_counts(
            sizes, list(self.weights.values()), self.cfg.mix_epoch_pairs or None
        )
        for name, size, count in zip(self.weights, sizes, counts, strict=True):
            tag = self.tags.get(name)
            suffix = "" if tag is None else f", tag {self.source_dictionary[tag]}"
            logger.info(f"{name}: {count} pairs per epoch, {size} in total{suffix}")
            if self.cfg.mix_epoch_pairs and not count:
                raise ConfigurationError(
                    f"--mix-epoch-pairs is {self.cfg.mix_epoch_pairs}, so an epoch would contain "
                    f"no pair from {name}. Set a larger number."
                )
        sources, targets = zip(*pairs, strict=True)
        return MixedPairs(
            Mixture(sources, counts, [self.tags.get(name) for name in self.weights]),
            self.source_dictionary,
            Mixture(targets, counts, [None] * len(counts)),
            self.target_dictionary,
            len(split_paths(self.cfg.data)),
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )

    def _check_tags(self, folders: list[Path]) -> None:
        """Reject tags for splits that do not exist or that --mix-weights excludes from training."""
        train = re.compile(rf"{re.escape(self.cfg.train_subset)}\d*")
        expected = f"a split in {' or '.join(map(str, folders))}" + (
            " or in --mix-weights" if self.weights else ""
        )
        for name in self.tags.keys() - self.weights.keys():
            is_unused = self.weights and train.fullmatch(name)
            files = f"{glob.escape(name)}.*-*.*"
            if is_unused or not any(path for folder in folders for path in folder.glob(files)):
                raise ConfigurationError(
                    f"--source-tags names the split {name}, which "
                    f"{'--mix-weights excludes' if is_unused else 'does not exist'}. Expected "
                    f"{'one listed there' if is_unused else expected}.{nearest(name, self.weights)}"
                )

    def _load_sides(self, path: Path) -> tuple[Any, Any]:
        """Return the sources and targets of a split. Reject missing, empty or unaligned files."""
        source, target = self.cfg.source_lang, self.cfg.target_lang
        dictionaries = {source: self.source_dictionary, target: self.target_dictionary}
        for languages in (f"{source}-{target}", f"{target}-{source}"):
            sides = [
                data_utils.load_indexed_dataset(
                    f"{path}.{languages}.{side}", dictionary, self.cfg.dataset_impl
                )
                for side, dictionary in dictionaries.items()
            ]
            if None not in sides and len(sides[0]) == len(sides[1]) > 0:
                return sides[0], sides[1]
        raise ConfigurationError(
            f"The split {path} of --mix-weights is missing or empty, or its sides have different "
            "lengths. Binarize it with fairseq-preprocess."
        )

    def _prepend_tags(self, pairs: LanguagePairDataset, split: str) -> None:
        """Prepend the tag of each part to the sources of this part.

        fairseq can combine several parts, such as `train`, `train1` and `train2`, into one split.
        """
        source = pairs.src
        combined = source if isinstance(source, ConcatDataset) else ConcatDataset([source])
        parts = []
        for index, part in enumerate(combined.datasets):
            name = f"{split}{index or ''}"
            tag = self.tags.get(name)
            if tag is not None:
                part = PrependTokenDataset(part, tag)
                symbol = self.source_dictionary[tag]
                logger.info(f"Prepended {symbol} to {len(part)} sources of {name}")
            parts.append(part)
        tagged = ConcatDataset(parts, combined.sample_ratios)
        replace_side(pairs, "src", tagged, tagged.sizes)


def _parse_tags(spec: str, dictionary: Any) -> dict[str, int]:
    """Parse --source-tags. Return the tag id of each split."""
    tags = {}
    for split, tag in _parse_splits(spec, "--source-tags", "SPLIT=SYMBOL, such as train1=<BT>"):
        if tag not in dictionary:
            raise ConfigurationError(
                f"--source-tags contains {tag}, which is not in the source "
                f"dictionary.{nearest(tag, dictionary.symbols)} Append it, also to the target "
                "dictionary if the model shares embeddings. This command keeps all other ids: "
                f"fairseq-ssl tag '{tag}' --dictionary dict.SOURCE.txt"
            )
        tags[split] = int(dictionary.index(tag))
    return tags


def _parse_weights(spec: str) -> dict[str, float]:
    """Parse --mix-weights. Return the weight of each split."""
    weights = {}
    for split, weight in _parse_splits(spec, "--mix-weights", "SPLIT=WEIGHT, such as bt=0.5"):
        try:
            weights[split] = float(weight)
        except ValueError:
            weights[split] = 0.0
        if not 0 < weights[split] < float("inf"):
            raise ConfigurationError(
                f"--mix-weights contains {split}={weight}. Expected a finite weight above 0."
            )
    return weights


def _parse_splits(spec: str, flag: str, form: str) -> list[tuple[str, str]]:
    """Parse SPLIT=VALUE,... Error messages contain the option `flag` and the expected `form`."""
    values: list[tuple[str, str]] = []
    for word in filter(None, spec.split(",")):
        match = SPLIT_VALUE.fullmatch(word)
        if match is None:
            raise ConfigurationError(f"{flag} contains {word!r}. Expected {form}.")
        if match["split"] in dict(values):
            raise ConfigurationError(
                f"{flag} names the split {match['split']} twice. Name each split once."
            )
        values.append((match["split"], match["value"]))
    return values


def _check_data_options(cfg: TaggedTranslationConfig, tags: bool, weights: bool) -> None:
    """Reject fairseq options that cannot be used with tags or mixtures."""
    if tags or weights:
        names = ("num_batch_buckets", "truncate_source")
        options = {name: getattr(cfg, name) for name in names}
        reject_options("--mix-weights" if weights else "--source-tags", options)
    if weights:
        options = {
            "load_alignments": cfg.load_alignments,
            "upsample_primary": cfg.upsample_primary > 1,
        }
        reject_options("--mix-weights", options)


def _check_search(args: Any, prefix_allowed_tokens_fn: Any) -> None:
    """Reject options that cannot be used with noisy beam search."""
    options = {
        "sampling": getattr(args, "sampling", False),
        "diverse_beam_groups": getattr(args, "diverse_beam_groups", -1) > 0,
        "diversity_rate": getattr(args, "diversity_rate", -1) > 0,
        "match_source_len": getattr(args, "match_source_len", False),
        "constraints": getattr(args, "constraints", None),
        "print_alignment": getattr(args, "print_alignment", None),
        "prefix_allowed_tokens_fn": prefix_allowed_tokens_fn,
    }
    reject_options("--noisy-beam-beta", options)
