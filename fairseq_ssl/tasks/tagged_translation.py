"""Translation that learns from data with tags, and makes such data (thesis, 4.3.1 and 5.3.3)."""

import logging
import re
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.data import ConcatDataset, LanguagePairDataset, PrependTokenDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_ssl.data.pair_sides import replace_side
from fairseq_ssl.errors import ConfigurationError, nearest
from fairseq_ssl.generation.noisy_beam import CANDIDATE, HYPOTHESIS, Noise, NoisyGenerator

logger = logging.getLogger(__name__)

TAG = re.compile(r"(?P<split>[^=,\s]+)=(?P<tag>[^=,\s]+)")


@dataclass
class TaggedTranslationConfig(TranslationConfig):
    """The options of fairseq's translation, the tags, and the noise of the beam."""

    source_tags: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "put a symbol of the dictionary before each source of a split, as in "
            "train1=<BT>,train2=<FT>; train1, train2, ... are what fairseq-preprocess makes of "
            "more than one --trainpref (default: no tags)"
        },
    )
    noisy_beam_beta: float = field(
        default=0.0,
        metadata={
            "help": "in decoding, add r beta to the score of each candidate at every step, r drawn "
            "from 0 to 1; beta_random, 6 in the thesis, 4.3.1; 0 or more (default: 0, the plain "
            "beam)"
        },
    )
    noisy_beam_per: str = field(
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


@register_task("tagged_translation", dataclass=TaggedTranslationConfig)
class TaggedTranslationTask(TranslationTask):
    """fairseq's translation, with tags before the sources of some data, and a noisy beam."""

    cfg: TaggedTranslationConfig

    def __init__(self, cfg: TaggedTranslationConfig, source: Any, target: Any) -> None:
        super().__init__(cfg, source, target)
        # fairseq's default is -1, with which it can not combine splits
        cfg.upsample_primary = max(cfg.upsample_primary, 1)
        self.noise = Noise(cfg.noisy_beam_beta, cfg.noisy_beam_per, cfg.noisy_beam_seed)
        self.tags = _tags(cfg.source_tags or "", source)
        if self.tags and (cfg.num_batch_buckets or cfg.truncate_source):
            raise ConfigurationError(
                "--source-tags goes neither with --num-batch-buckets nor with --truncate-source."
            )

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split as translation does, and put the tags before its sources."""
        super().load_dataset(split, epoch, combine, **options)
        if self.tags:
            self._tag(self.datasets[split], split)

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build the search that fairseq would, or the noisy one."""
        if self.noise.beta and not getattr(args, "score_reference", False):
            _check_search(args, prefix_allowed_tokens_fn)
            seq_gen_cls = NoisyGenerator
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "noise": self.noise}
        return super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
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
    for word in filter(None, given.split(",")):
        found = TAG.fullmatch(word)
        if found is None:
            raise ConfigurationError(
                f"--source-tags has {word!r}; expected SPLIT=SYMBOL, as in train1=<BT>."
            )
        if found["tag"] not in dictionary:
            raise ConfigurationError(
                f"--source-tags names {found['tag']}, which the source dictionary lacks."
                f"{nearest(found['tag'], dictionary.symbols)} Add it as its last line, which "
                f"leaves the ids of the data as they are: echo '{found['tag']} 1' >> "
                "dict.SOURCE.txt (and to that of the target, where both share their embeddings)."
            )
        tags[found["split"]] = int(dictionary.index(found["tag"]))
    return tags


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
