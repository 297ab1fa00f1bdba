"""Correct text by labeling its tokens with edits (PIE)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.data import ConcatDataset, data_utils
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II

from fairseq_ssl.data.edit_dataset import EditDataset
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.generation.edit_corrector import EditCorrector
from fairseq_ssl.generation.edit_rounds import EditDecodingConfig, EditRounds, edit_generator

logger = logging.getLogger(__name__)

EDITS_FILE = "edits.txt"
EDITS, NONE = "edits", "None"
"""What fairseq-preprocess calls the labels, binarized alone, and the side that is not there."""


@dataclass
class EditLabelingConfig(EditDecodingConfig):
    """Where the data is, how the sentences without an error come, and how to correct."""

    data: str = field(
        default="",
        metadata={
            "help": "folder of the binarized text and its labels, with edits.txt, which `edits "
            "dictionary` wrote; several, with : between them, are taken in turn in the epochs"
        },
    )
    source_lang: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={"help": "side to correct (default: found in the data)", "argparse_alias": "-s"},
    )
    target_lang: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "side that is corrected (default: found)", "argparse_alias": "-t"},
    )
    edit_unchanged_share: float = field(
        default=1.0,
        metadata={
            "help": "share, 0 to 1, of the training sentences without an edit that come in an "
            "epoch, others in the next one (default: 1)"
        },
    )
    train_subset: str = II("dataset.train_subset")
    dataset_impl: Any = II("dataset.dataset_impl")  # noqa: RUF009 - as fairseq does
    required_seq_len_multiple: int = II("dataset.required_seq_len_multiple")
    seed: int = II("common.seed")


@register_task("edit_labeling", dataclass=EditLabelingConfig)
class EditLabelingTask(FairseqTask):
    """From the tokens of a sentence to the edits that correct it.

    Its data is that of a translation of the text into what it should be, binarized with one
    dictionary, so that a Transformer can be trained on the same folder; beside it are the
    labels, binarized alone, and the edit dictionary.

    Words that are not in the dictionary are copied as they were written: from the lines that
    fairseq-interactive reads, and by fairseq-generate from text as it is (--dataset-impl raw).
    Binarized text has lost them, and <unk> stands in their place.
    """

    cfg: EditLabelingConfig

    def __init__(
        self, cfg: EditLabelingConfig, dictionary: OovDictionary, edits: EditDictionary
    ) -> None:
        super().__init__(cfg)
        if not 0 <= cfg.edit_unchanged_share <= 1:
            raise ConfigurationError(
                f"--edit-unchanged-share is {cfg.edit_unchanged_share}; expected a share, 0 to 1."
            )
        self.dictionary = dictionary
        self.edits = edits
        self.state.merge_state_dict({"edit_dictionary": edits.text()})

    @classmethod
    def setup_task(cls, cfg: EditLabelingConfig, **options: Any) -> "EditLabelingTask":
        """Load the dictionaries."""
        folder = Path(utils.split_paths(cfg.data)[0])
        _find_sides(cfg, folder)
        dictionary = _dictionary(folder, cfg)
        edits = EditDictionary.read(folder / EDITS_FILE)
        logger.info(f"{len(dictionary)} tokens, {len(edits.labels)} edits")
        return cls(cfg, dictionary, edits)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what a checkpoint knows of the task; refuse it if it knows other edits."""
        known = state_dict.get("edit_dictionary")
        if known is not None and known != self.edits.text():
            raise ConfigurationError(
                f"The checkpoint was trained with other edits than {EDITS_FILE} in {self.cfg.data} "
                "has. Use the data folder that it was trained with, or label the data with its "
                "dictionary."
            )
        super().load_state_dict(state_dict)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Make the model; one that a checkpoint fills needs no language model to start from."""
        if from_checkpoint and getattr(cfg, "edit_init", None) is not None:
            cfg.edit_init = None
        return super().build_model(cfg, from_checkpoint)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split: its labels if it has some, and its corrected text but for training."""
        paths = utils.split_paths(self.cfg.data)
        folder = Path(paths[(epoch - 1) % len(paths)])
        is_training = split == self.cfg.train_subset
        parts = self._parts(folder, split, combine)
        text, target, labels = (_joined([part[place] for part in parts]) for place in range(3))
        if text is None:
            raise ConfigurationError(
                f"{folder} has no text for {split}. Expected what fairseq-preprocess writes, as "
                f"{split}.{self.cfg.source_lang}-{self.cfg.target_lang or NONE}."
                f"{self.cfg.source_lang}.idx."
            )
        if is_training and labels is None:
            raise ConfigurationError(
                f"{folder} has no labels for {split}. Make them with fairseq-ssl edits label, and "
                f"binarize them with fairseq-preprocess --only-source --source-lang {EDITS}."
            )
        self.datasets[split] = EditDataset(
            *(text, text.sizes, self.dictionary),
            labels=labels,
            label_sizes=None if labels is None else labels.sizes,
            corrected=None if is_training else target,
            seed=self.cfg.seed,
            unchanged_share=self.cfg.edit_unchanged_share if is_training else 1.0,
            shuffle=is_training,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, **options: Any
    ) -> EditDataset:
        """Take sentences that come from elsewhere."""
        return EditDataset(src_tokens, src_lengths, self.dictionary, shuffle=False)

    def build_generator(
        self,
        models: Sequence[Any],
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: dict[str, Any] | None = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> EditRounds:
        """Return what corrects sentences; of the arguments only models and options have a say."""
        language_model = (extra_gen_cls_kwargs or {}).get("lm_model")
        return edit_generator(models, self.dictionary, self.edits, self.cfg, args, language_model)

    def build_corrector(self, models: Sequence[Any], cfg: Any) -> EditCorrector:
        """Return what corrects sentences from Python."""
        return EditCorrector(cfg, self, models)

    @property
    def source_dictionary(self) -> OovDictionary:
        """Return the dictionary of the tokens."""
        return self.dictionary

    @property
    def target_dictionary(self) -> OovDictionary:
        """Return the same: what is corrected has the same tokens."""
        return self.dictionary

    def max_positions(self) -> Any:
        """Leave it to the model how long a sentence may be."""
        return None

    def _parts(self, folder: Path, split: str, combine: bool) -> list[list[Any]]:
        """Load text, corrected text and labels of a split; with `combine`, of split1 ... too."""
        parts: list[list[Any]] = []
        for number in count():
            name = f"{split}{number or ''}"
            part = [self._part(folder, name, side) for side in ("source", "target", "labels")]
            if part[0] is None:
                return parts
            parts.append(part)
            if not combine:
                return parts
        raise AssertionError

    def _part(self, folder: Path, name: str, side: str) -> Any:
        source, target = self.cfg.source_lang, self.cfg.target_lang
        if side == "labels":
            words = OovDictionary()
            for label in self.edits.names:
                words.add_symbol(label)
            return _loaded(folder / f"{name}.{EDITS}-{NONE}.{EDITS}", words, self.cfg.dataset_impl)
        language = source if side == "source" else target
        for pair in (f"{source}-{target}", f"{target}-{source}", f"{source}-{NONE}"):
            path = folder / f"{name}.{pair}.{language}"
            found = _loaded(path, self.dictionary, self.cfg.dataset_impl)
            if found is not None:
                return found
        return None


def _find_sides(cfg: EditLabelingConfig, folder: Path) -> None:
    """Find out what the sides are called where it is not told."""
    if cfg.source_lang is not None:
        return
    names = [path.name.split(".") for path in folder.glob("*.*-*.*")]
    pairs = {pair for _, pair, side, *_ in names if side in pair.split("-") and side != EDITS}
    if len(pairs) != 1:
        found = f"holds {' and '.join(sorted(pairs))}" if pairs else "holds no binarized text"
        raise ConfigurationError(
            f"{folder} {found}. Expected one pair of sides, as in train.src-trg.src.idx; name it "
            "with --source-lang and --target-lang."
        )
    cfg.source_lang, cfg.target_lang = pairs.pop().split("-", 1)


def _dictionary(folder: Path, cfg: EditLabelingConfig) -> OovDictionary:
    """Load the dictionary of the tokens; both sides must have the same."""
    paths = [folder / f"dict.{side}.txt" for side in (cfg.source_lang, cfg.target_lang)]
    there = [path for path in paths if path == paths[0] or path.exists()]
    try:
        loaded: list[OovDictionary] = [OovDictionary.load(str(path)) for path in there]
    except FileNotFoundError:
        raise DataError(
            f"{paths[0]} is missing. Expected the dictionary that the text was binarized with."
        ) from None
    if any(one.symbols != loaded[0].symbols for one in loaded):
        raise ConfigurationError(
            f"{paths[0].name} and {paths[1].name} in {folder} differ. Edits copy tokens: binarize "
            "with fairseq-preprocess --joined-dictionary."
        )
    return loaded[0]


def _loaded(path: Path, dictionary: Any, implementation: Any) -> Any:
    return data_utils.load_indexed_dataset(str(path), dictionary, implementation)


def _joined(parts: list[Any]) -> Any:
    """Return all parts as one; None where there is none, as where only some have it."""
    if not parts or any(part is None for part in parts):
        return None
    return parts[0] if len(parts) == 1 else ConcatDataset(parts)
