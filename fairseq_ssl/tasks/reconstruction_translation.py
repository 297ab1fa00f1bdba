"""Translation learned both ways at once, from pairs and from monolingual text."""

import logging
from argparse import Namespace
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from fairseq_ssl.criterions.reconstruction_loss import SOURCE, TARGET, ReconstructionLoss
from fairseq_ssl.data.bitext_with_mono import BitextWithMono, collate_candidates
from fairseq_ssl.data.length_bound import fit_length_bound, parse_length_bound
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.two_way_model import TwoWayModel

logger = logging.getLogger(__name__)

SEARCHES = ("beam", "sampling")


@dataclass
class ReconstructionTranslationConfig(TranslationConfig):
    """The options of fairseq's translation, and those of monolingual text."""

    reconstruction_source_text: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "monolingual text in the source language, as FOLDER/train of what "
            "fairseq-preprocess --only-source has made with the dictionary of the pairs "
            "(default: none)"
        },
    )
    reconstruction_target_text: Optional[str] = field(  # noqa: UP045
        default=None, metadata={"help": "the same in the target language (default: none)"}
    )
    reconstruction_beam: int = field(
        default=5,
        metadata={"help": "candidates of each monolingual sentence, 1 or more (default: 5)"},
    )
    reconstruction_search: str = field(
        default="beam",
        metadata={"help": "how they are found: beam, or sampling (default: beam)"},
    )
    reconstruction_max_len: str = field(
        default="auto",
        metadata={
            "help": "a,b: a candidate of a sentence of n words has at most a n + b; auto: the "
            "lowest line above 99.9 percent of the training pairs (default: auto)"
        },
    )
    reconstruction_mixed_lengths: bool = field(
        default=False,
        metadata={
            "help": "train on batches of sentences of any length, and not of like lengths, which "
            "batch norm needs where batches are small"
        },
    )
    seed: int = II("common.seed")


@register_task("reconstruction_translation", dataclass=ReconstructionTranslationConfig)
class ReconstructionTranslationTask(TranslationTask):
    """fairseq's translation for two models of any architecture, one for each direction."""

    cfg: ReconstructionTranslationConfig

    def __init__(self, cfg: ReconstructionTranslationConfig, source: Any, target: Any) -> None:
        super().__init__(cfg, source, target)
        _check(cfg)
        languages = cfg.source_lang, cfg.target_lang
        self.directions = {
            "-".join(pair): TranslationTask(_one_way(cfg, *pair), *dictionaries)
            for pair, dictionaries in (
                (languages, (source, target)),
                (languages[::-1], (target, source)),
            )
        }
        self.searches: dict[str, Any] = {}

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split both ways, and with what trains, the monolingual text."""
        for task in self.directions.values():
            task.load_dataset(split, epoch, combine, **options)
        pairs, reversed_pairs = (task.datasets[split] for task in self.directions.values())
        trains = split == self.cfg.train_subset
        self.datasets[split] = BitextWithMono(
            pairs,
            reversed_pairs,
            self._texts() if trains else {},
            self.cfg.seed,
            trains and self.cfg.reconstruction_mixed_lengths,
        )

    def _texts(self) -> dict[str, Any]:
        given = {
            SOURCE: (self.cfg.reconstruction_source_text, self.cfg.source_lang, self.src_dict),
            TARGET: (self.cfg.reconstruction_target_text, self.cfg.target_lang, self.tgt_dict),
        }
        return {
            name: self._text(Path(path), language, dictionary)
            for name, (path, language, dictionary) in given.items()
            if path
        }

    def _text(self, path: Path, language: str, dictionary: Any) -> LanguagePairDataset:
        """Load sentences as sources and targets of themselves."""
        impl = self.cfg.dataset_impl
        for name in (f"{path}.{language}-None.{language}", f"{path}.{language}"):
            text = data_utils.load_indexed_dataset(name, dictionary, impl)
            if text is not None:
                break
        else:
            raise ConfigurationError(
                f"{path}.{language}-None.{language} is not there. Expected monolingual text, as "
                f"fairseq-preprocess --only-source -s {language} --srcdict "
                f"{self.cfg.data}/dict.{language}.txt --trainpref TEXT --destdir {path.parent} "
                "makes it."
            )
        own = path.parent / f"dict.{language}.txt"
        if own.exists() and Dictionary.load(str(own)) != dictionary:
            raise ConfigurationError(
                f"{own} is another dictionary than that of the pairs. Binarize the text again with "
                f"--srcdict {self.cfg.data}/dict.{language}.txt."
            )
        longest = min(self.max_positions())
        short = (text.sizes <= longest).nonzero()[0]
        if not len(short):
            raise ConfigurationError(f"{path}: no sentence has at most {longest} tokens.")
        logger.info(f"{path}: {len(short)} of {len(text)} sentences, each at most {longest} tokens")
        sentences = text if len(short) == len(text) else _Chosen(text, short)
        return LanguagePairDataset(
            *(sentences, sentences.sizes, dictionary),
            *(sentences, sentences.sizes, dictionary),
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
        )

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> TwoWayModel:
        """Build the architecture twice."""
        return TwoWayModel(
            {name: task.build_model(cfg, from_checkpoint) for name, task in self.directions.items()}
        )

    def build_criterion(self, cfg: Any, *options: Any, **named: Any) -> Any:
        """Build the loss, which must be the one that knows two models."""
        criterion = super().build_criterion(cfg, *options, **named)  # 0.12.2 has no options
        if not isinstance(criterion, ReconstructionLoss):
            raise ConfigurationError(
                "--task reconstruction_translation trains two models, and needs --criterion "
                "reconstruction_loss."
            )
        return criterion

    def build_generator(self, models: Any, args: Any, *others: Any, **options: Any) -> Any:
        """Build a search with those of the models that translate into --target-lang."""
        forward = next(iter(self.directions))
        one_way = [
            model.models[forward] if isinstance(model, TwoWayModel) else model for model in models
        ]
        return super().build_generator(one_way, args, *others, **options)

    def train_step(
        self,
        sample: dict[str, Any],
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Any:
        """Look for translations of monolingual sentences, then train on all."""
        candidates = {}
        for name, direction in zip((SOURCE, TARGET), self.directions, strict=True):
            weight = criterion.weight(name, update_num)
            if name in sample and weight:
                beam = criterion.candidate_count(self.cfg.reconstruction_beam)
                found = self._found(sample[name], model, direction)
                padding = self.directions[direction].target_dictionary.pad()
                candidates[name] = {**collate_candidates(found, padding, beam), "weight": weight}
        sample = {**sample, "candidates": candidates} if candidates else sample
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def _found(self, text: dict[str, Any], model: Any, direction: str) -> Any:
        """Return candidates of each sentence; the model is as in decoding meanwhile."""
        one_way = model.models[direction]
        if direction not in self.searches:
            self.searches[direction] = self._search(one_way, direction)
        one_way.eval()
        found = self.searches[direction].generate([one_way], {"net_input": text["net_input"]})
        one_way.train()
        return found

    def _search(self, model: Any, direction: str) -> Any:
        task = self.directions[direction]
        slope, offset = self._max_len(direction)
        sampling = self.cfg.reconstruction_search == "sampling"
        args = Namespace(
            beam=self.cfg.reconstruction_beam,
            max_len_a=slope,
            max_len_b=offset,
            unnormalized=True,
            sampling=sampling,
        )
        return task.build_generator([model], args)

    def _max_len(self, direction: str) -> tuple[float, int]:
        """Return a and b for the search: of words and end before it, of words alone after it."""
        if self.cfg.reconstruction_max_len != "auto":
            return _line(self.cfg.reconstruction_max_len)
        pairs = self.directions[direction].datasets[self.cfg.train_subset]
        slope, offset = fit_length_bound(pairs.src_sizes, pairs.tgt_sizes)
        logger.info(f"candidates of {direction} have at most {slope} n + {offset} words")
        return slope, max(int(offset), 1)

    def max_positions(self) -> tuple[int, int]:
        """Return how long a sentence may be, which is read on either side."""
        longest = min(self.cfg.max_source_positions, self.cfg.max_target_positions)
        return longest, longest


class _Chosen:
    """Some sentences of a text."""

    def __init__(self, text: Any, chosen: Any) -> None:
        self.text = text
        self.chosen = chosen
        self.sizes = text.sizes[chosen]

    def __getitem__(self, index: int) -> Any:
        return self.text[int(self.chosen[index])]

    def __len__(self) -> int:
        return len(self.chosen)


def _one_way(cfg: ReconstructionTranslationConfig, source: str, target: str) -> TranslationConfig:
    """Return the options of fairseq's own task for one direction."""
    names = {one.name for one in fields(TranslationConfig)} - {"_name"}
    options = {name: getattr(cfg, name) for name in names}
    return TranslationConfig(**{**options, "source_lang": source, "target_lang": target})


def _line(given: str) -> tuple[float, int]:
    line = parse_length_bound(given)
    if line is None or max(line) >= 1e6 or line[1] < 1:
        raise ConfigurationError(
            f"--reconstruction-max-len is {given!r}; expected auto, or a,b with a of 0 or more and "
            "b of 1 or more, as in 1.2,10."
        )
    return line[0], int(line[1])


def _check(cfg: ReconstructionTranslationConfig) -> None:
    """Refuse settings out of range, and those that know of one model alone."""
    if cfg.source_lang == cfg.target_lang:
        raise ConfigurationError(
            f"--source-lang and --target-lang are both {cfg.source_lang!r}; expected two."
        )
    if cfg.reconstruction_beam < 1:
        raise ConfigurationError(
            f"--reconstruction-beam is {cfg.reconstruction_beam}; expected 1 or more."
        )
    if cfg.reconstruction_search not in SEARCHES:
        raise ConfigurationError(
            f"--reconstruction-search is {cfg.reconstruction_search!r}; expected "
            f"{', '.join(SEARCHES)}."
        )
    if cfg.reconstruction_max_len != "auto":
        _line(cfg.reconstruction_max_len)
    clash = {
        "--eval-bleu": cfg.eval_bleu,
        "--load-alignments": cfg.load_alignments,
        "--num-batch-buckets": cfg.num_batch_buckets,
        "--left-pad-target": cfg.left_pad_target,
        "--truncate-source": cfg.truncate_source,
    }
    for flag, given in clash.items():
        if given:
            raise ConfigurationError(f"--task reconstruction_translation does not go with {flag}.")
