"""Translation that learns from mixed data with tags, and makes it (thesis, 4.3.1 and 5.3.3)."""

import glob
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.data import ConcatDataset, LanguagePairDataset, PrependTokenDataset, data_utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths

from fairseq_ssl.data.dataset_sides import replace_side
from fairseq_ssl.data.mixing import MixedPairs, Mixture, mixture_counts
from fairseq_ssl.errors import ConfigurationError, nearest
from fairseq_ssl.generation.fluency_boost import Fluency, FluencyBoost
from fairseq_ssl.generation.noisy_beam import CANDIDATE, HYPOTHESIS, BeamNoise, NoisyGenerator
from fairseq_ssl.tasks.translation_mixins import RIGHT_TO_LEFT, RightToLeft

logger = logging.getLogger(__name__)

GIVEN = re.compile(r"(?P<split>[^=,\s]+)=(?P<what>[^=,\s]+)")


@dataclass
class TaggedTranslationConfig(TranslationConfig):
    """The options of fairseq's translation, the tags, and the noise of the beam."""

    source_tags: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "put a symbol of the dictionary before each source of a split, as in "
            "../bt/train=<BT>,../ft/train=<FT>, splits of other folders that --mix-weights names; "
            "or train1=<BT>, where the data has train1 beside train (default: no tags)"
        },
    )
    mix_weights: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "train on these splits at this ratio, as in train=1,bt=0.5,ft=0.5; a split of "
            "another folder is called folder/split (default: what fairseq does, all of train, "
            "train1, ...)"
        },
    )
    mix_epoch_pairs: int = field(
        default=0,
        metadata={
            "help": "with --mix-weights, pairs of an epoch; each epoch takes pairs from all parts "
            "of a large split and continues where the last one ended; memory is 13 bytes a pair of "
            "an epoch (default: as few as hold each split once, the others up-sampled)"
        },
    )
    right_to_left: bool = field(default=False, metadata={"help": RIGHT_TO_LEFT})
    noisy_beam_beta: float = field(
        default=0.0,
        metadata={
            "help": "in decoding, add r beta to the score of each candidate at every step, r drawn "
            "from 0 to 1; beta_random, 6 in the thesis, 4.3.1; 0 or more (default: 0, the plain "
            "beam)"
        },
    )
    noisy_beam_granularity: str = field(
        default=CANDIDATE,
        metadata={
            "help": f"{CANDIDATE}: an r for each word that may follow a hypothesis; {HYPOTHESIS}: "
            f"one for all that may follow it (default: {CANDIDATE})"
        },
    )
    noisy_beam_seed: int = field(
        default=1,
        metadata={"help": "of r, which depends on it, the sentence and its words (default: 1)"},
    )

    fluency_boost_lm: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "in decoding, keep of the n best those alone that this language model finds "
            "less fluent than the source, a correct sentence (Ge et al., 2018; default: keep all)"
        },
    )
    fluency_boost_ratio: float = field(
        default=1.05,
        metadata={
            "help": "how many times as fluent the source must be, sigma; fluency is 1 / (1 + "
            "cross-entropy per token in nats); above 0 (default: 1.05)"
        },
    )
    fluency_boost_data: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "folder with the dict.txt of the language model"},
    )


@register_task("tagged_translation", dataclass=TaggedTranslationConfig)
class TaggedTranslationTask(RightToLeft, TranslationTask):
    """fairseq's translation, with tags before the sources of some data, and a noisy beam."""

    cfg: TaggedTranslationConfig
    decodes_models_of = ("translation", "tagged_translation")
    """Tasks of training. Their models are decoded in this task, which has the noisy beam search."""

    def __init__(self, cfg: TaggedTranslationConfig, source: Any, target: Any) -> None:
        super().__init__(cfg, source, target)
        # fairseq's default is -1, with which it can not combine splits
        cfg.upsample_primary = max(cfg.upsample_primary, 1)
        self.noise = BeamNoise(cfg.noisy_beam_beta, cfg.noisy_beam_granularity, cfg.noisy_beam_seed)
        self.tags = _tags(cfg.source_tags or "", source)
        self.weights = _weights(cfg.mix_weights or "")
        _check_data_options(cfg, bool(self.tags), bool(self.weights))

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as translation does, or mix several; put the tags before its sources."""
        folders = split_paths(self.cfg.data)
        folder = Path(folders[(epoch - 1) % len(folders)])
        if split == self.cfg.train_subset:
            self._check_tags(folder)
        if self.weights and split == self.cfg.train_subset:
            self.datasets[split] = self._mixed(folder)
        else:
            super().load_dataset(split, epoch, combine, **options)
            if self.tags:
                self._tag(self.datasets[split], split)
        self.turn_targets(split, options)

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, constraints: Any = None
    ) -> Any:
        """Take lines as they are: --source-tags is for splits."""
        if self.tags:
            logger.warning("--source-tags is for splits; lines that are read get no tag")
        return super().build_dataset_for_inference(src_tokens, src_lengths, constraints)

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build the search that fairseq would, or the noisy one."""
        scoring = getattr(args, "score_reference", False)
        if self.noise.beta and not scoring:
            _check_search(args, prefix_allowed_tokens_fn)
            seq_gen_cls = NoisyGenerator
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "noise": self.noise}
        generator = super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )
        return self._boosted(generator) if self.cfg.fluency_boost_lm and not scoring else generator

    def _boosted(self, generator: Any) -> FluencyBoost:
        """Let a language model judge what the generator writes."""
        assert self.cfg.fluency_boost_lm is not None
        if self.cfg.right_to_left:
            raise ConfigurationError("--right-to-left does not go with --fluency-boost-lm.")
        folder = self.cfg.fluency_boost_data
        fluency = Fluency.load(Path(self.cfg.fluency_boost_lm), Path(folder) if folder else None)
        sides = self.source_dictionary, self.target_dictionary
        return FluencyBoost(generator, fluency, *sides, self.cfg.fluency_boost_ratio)

    def _mixed(self, folder: Path) -> MixedPairs:
        """Mix the splits at their weights."""
        pairs = [self._sides(folder / name) for name in self.weights]
        sizes = [len(source) for source, _ in pairs]
        counts = mixture_counts(
            sizes, list(self.weights.values()), self.cfg.mix_epoch_pairs or None
        )
        for name, size, count in zip(self.weights, sizes, counts, strict=True):
            tag = self.tags.get(name)
            before = "" if tag is None else f", {self.source_dictionary[tag]} before each"
            logger.info(f"{count} pairs an epoch of the {size} of {name}{before}")
        sources, targets = zip(*pairs, strict=True)
        return MixedPairs(
            Mixture(sources, counts, [self.tags.get(name) for name in self.weights]),
            self.source_dictionary,
            Mixture(targets, counts, [None] * len(counts)),
            self.target_dictionary,
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )

    def _check_tags(self, folder: Path) -> None:
        """Refuse tags for what is neither trained on nor another split of the folder."""
        train = re.compile(rf"{re.escape(self.cfg.train_subset)}\d*")
        known = f"a split in {folder}" + (" or in --mix-weights" if self.weights else "")
        for name in self.tags.keys() - self.weights.keys():
            mixed_out = self.weights and train.fullmatch(name)
            if mixed_out or not any(folder.glob(f"{glob.escape(name)}.*-*.*")):
                raise ConfigurationError(
                    f"--source-tags names {name}, which is not trained on. Expected {known}."
                    f"{nearest(name, self.weights)}"
                )

    def _sides(self, path: Path) -> tuple[Any, Any]:
        """Load the sources and the targets of a split, which stay where they are on the disk."""
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
            f"--mix-weights names {path.name}, but {path}.{source}-{target}.{source} and "
            f".{target} are not there, not equally long, or empty. fairseq-preprocess writes them."
        )

    def _tag(self, pairs: LanguagePairDataset, split: str) -> None:
        """Put tags before the sources of those parts of a split that have one."""
        source = pairs.src
        whole = source if isinstance(source, ConcatDataset) else ConcatDataset([source])
        parts = []
        for number, part in enumerate(whole.datasets):
            name = f"{split}{number or ''}"
            tag = self.tags.get(name)
            if tag is not None:
                part = PrependTokenDataset(part, tag)
                logger.info(f"{self.source_dictionary[tag]} before {len(part)} sources of {name}")
            parts.append(part)
        tagged = ConcatDataset(parts, whole.sample_ratios)
        replace_side(pairs, "src", tagged, tagged.sizes)


def _tags(given: str, dictionary: Any) -> dict[str, int]:
    """Return the symbol to put before the sources of each split."""
    tags = {}
    for split, tag in _by_split(given, "--source-tags", "SPLIT=SYMBOL, as in train1=<BT>"):
        if tag not in dictionary:
            raise ConfigurationError(
                f"--source-tags names {tag}, which the source dictionary lacks."
                f"{nearest(tag, dictionary.symbols)} Add it as its last line, which leaves the ids "
                f"of the data as they are: fairseq-ssl tag '{tag}' --dictionary dict.SOURCE.txt "
                "(and that of the target, where both share their embeddings)."
            )
        tags[split] = int(dictionary.index(tag))
    return tags


def _weights(given: str) -> dict[str, float]:
    """Return how much of an epoch each split is to be, beside the others."""
    weights = {}
    for split, weight in _by_split(given, "--mix-weights", "SPLIT=WEIGHT, as in bt=0.5"):
        try:
            weights[split] = float(weight)
        except ValueError:
            weights[split] = 0.0
        if not 0 < weights[split] < float("inf"):
            raise ConfigurationError(f"--mix-weights has {split}={weight}; expected above 0.")
    return weights


def _by_split(given: str, flag: str, form: str) -> list[tuple[str, str]]:
    """Return what a flag says of each split."""
    said: list[tuple[str, str]] = []
    for word in filter(None, given.split(",")):
        found = GIVEN.fullmatch(word)
        if found is None:
            raise ConfigurationError(f"{flag} has {word!r}; expected {form}.")
        if found["split"] in dict(said):
            raise ConfigurationError(f"{flag} names {found['split']} twice.")
        said.append((found["split"], found["what"]))
    return said


def _check_data_options(cfg: TaggedTranslationConfig, tags: bool, weights: bool) -> None:
    """Refuse what neither tags nor mixtures know of."""
    clash = {
        "--num-batch-buckets": cfg.num_batch_buckets and (tags or weights),
        "--truncate-source": cfg.truncate_source and (tags or weights),
        "--load-alignments": cfg.load_alignments and weights,
        "--upsample-primary": cfg.upsample_primary > 1 and weights,
    }
    ours = "--mix-weights" if weights else "--source-tags"
    for flag, given in clash.items():
        if given:
            raise ConfigurationError(f"{ours} does not go with {flag}.")
    if cfg.mix_epoch_pairs < 0 or (cfg.mix_epoch_pairs and not weights):
        raise ConfigurationError("--mix-epoch-pairs goes with --mix-weights, and is above 0.")


def _check_search(args: Any, prefix_allowed_tokens_fn: Any) -> None:
    """Refuse other searches beside the noisy beam."""
    others = {
        "--sampling": getattr(args, "sampling", False),
        "--diverse-beam-groups": getattr(args, "diverse_beam_groups", -1) > 0,
        "--diversity-rate": getattr(args, "diversity_rate", -1) > 0,
        "--match-source-len": getattr(args, "match_source_len", False),
        "--constraints": bool(getattr(args, "constraints", None)),
        "--print-alignment": bool(getattr(args, "print_alignment", None)),
        "prefix_allowed_tokens_fn": prefix_allowed_tokens_fn is not None,
    }
    clash = [flag for flag, given in others.items() if given]
    if clash:
        raise ConfigurationError(
            f"--noisy-beam-beta is a search of its own; leave {clash[0]} out, or the noise."
        )
