"""Semi-supervised text classification with an expert and imitators (MEIN)."""

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch.utils.data import ConcatDataset

from fairseq_ssl.data.teacher_labels import TeacherLabels, open_teacher_labels
from fairseq_ssl.data.two_view_dataset import (
    LABEL,
    PIECES,
    WORDS,
    TwoViewDataset,
    View,
    ViewIds,
    concat_views,
    sample_lines,
)
from fairseq_ssl.errors import ConfigurationError, DataError, flag
from fairseq_ssl.models import bert_classifier, encoder_classifier, text_classifier
from fairseq_ssl.models.imitators import imitator_options
from fairseq_ssl.models.text_classifier import TextClassifier
from fairseq_ssl.modules.recurrent_encoder import flush_denormals
from fairseq_ssl.optim.adam import LazyAdam
from fairseq_ssl.options import option
from fairseq_ssl.tasks.translation_mixins import register_task
from fairseq_ssl.text.vocabulary import fingerprint, is_padding_entry

logger = logging.getLogger(__name__)

SUPERVISED, IMITATE, MIXTURE = "supervised", "imitate", "mixture"
STAGES = (SUPERVISED, IMITATE, MIXTURE)
SAMPLE_SEED = 1
"""Fixed seed for sampling unlabeled lines. Smaller samples are subsets of larger samples."""


@dataclass
class SemiSupervisedClassificationConfig(FairseqDataclass):
    """Options for the data and the training stage."""

    data: str = option(
        "",
        "data folder from `fairseq-ssl classify prepare`; it contains one folder for words, one "
        "for subwords and one for labels, each with dict.txt and binarized splits",
    )
    classification_stage: ChoiceEnum(STAGES) = option(  # type: ignore[valid-type]
        SUPERVISED,
        "training stage; supervised: an expert is trained on labeled texts; imitate: imitators are "
        "trained on the expert's predictions for unlabeled texts; mixture: the expert is "
        "fine-tuned together with its imitators",
        choices=STAGES,
    )
    classification_max_length: Optional[int] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "maximum text length in words for the expert, including </s>; the first words of longer "
        "texts are dropped",
        low=1,
        usual="no maximum",
    )
    classification_unlabeled: str = option(
        "unlabeled", "unlabeled splits, separated by :, such as unlabeled:extra"
    )
    classification_unlabeled_lines: Optional[int] = option(  # noqa: UP045
        None,
        "number of unlabeled lines to use; they are sampled from the first unlabeled split, and "
        "from the next split if the first has too few lines; smaller samples are subsets of larger "
        "samples",
        low=1,
        usual="all lines",
    )
    classification_full_epochs: bool = option(
        False,
        "repeat the sampled unlabeled lines so that an epoch has as many updates as with all "
        "lines (imitate only)",
    )
    classification_unlabeled_per_labeled: int = option(
        0,
        "number of unlabeled texts per labeled text for --criterion "
        "virtual_adversarial_cross_entropy; they are sampled from all texts, labeled texts "
        "included, and their labels are ignored",
        low=0,
    )
    imitator_teacher: Optional[str] = option(  # noqa: UP045
        None,
        "expert for the stage imitate: a folder with class probabilities from `fairseq-ssl "
        "classify label`, or a checkpoint that predicts the probabilities in each epoch; of a text "
        "longer than the checkpoint's maximum length, only the end is used",
        usual="none",
    )
    train_subset: str = II("dataset.train_subset")
    dataset_impl: Any = II("dataset.dataset_impl")  # noqa: RUF009 - as in fairseq
    seed: int = II("common.seed")


@register_task("semi_supervised_classification", dataclass=SemiSupervisedClassificationConfig)
class SemiSupervisedClassificationTask(FairseqTask):
    """Text classification in three training stages (Kiyono, 2022, algorithm 1)."""

    cfg: SemiSupervisedClassificationConfig

    def __init__(
        self, cfg: SemiSupervisedClassificationConfig, dictionaries: dict[str, Any]
    ) -> None:
        super().__init__(cfg)
        self.stage = str(cfg.classification_stage)
        self.dictionaries = dictionaries
        labels = dictionaries[LABEL]
        self.classes = [
            symbol for symbol in labels.symbols[labels.nspecial :] if not is_padding_entry(symbol)
        ]
        _check(cfg, self.stage)
        self.state.merge_state_dict({"vocabularies": self.vocabularies()})

    @classmethod
    def setup_task(
        cls, cfg: SemiSupervisedClassificationConfig, **options: Any
    ) -> "SemiSupervisedClassificationTask":
        """Load the word and label dictionaries and, if it exists, the subword dictionary."""
        flush_denormals()  # before PyTorch starts its threads
        folder = Path(cfg.data)
        dictionaries = {}
        for name in (WORDS, PIECES, LABEL):
            path = folder / name / "dict.txt"
            if path.exists():
                dictionaries[name] = Dictionary.load(str(path))
            elif name != PIECES:
                raise DataError(
                    f"{path} is missing. Expected output of `fairseq-ssl classify prepare`."
                )
        counts = ", ".join(f"{len(dictionary)} {name}" for name, dictionary in dictionaries.items())
        logger.info(f"dictionaries: {counts}")
        return cls(cfg, dictionaries)

    def vocabularies(self) -> dict[str, str]:
        """Return a fingerprint (size and hash) of each dictionary, by dictionary name."""
        return {
            name: fingerprint(dictionary.symbols) for name, dictionary in self.dictionaries.items()
        }

    def check_task_state(self, state: dict[str, Any], origin: str) -> None:
        """Raise ConfigurationError if a checkpoint was trained with different dictionaries.

        Args:
            state: the task state of the checkpoint.
            origin: name of the checkpoint for the error message.
        """
        ours = self.vocabularies()
        for name, theirs in (state.get("vocabularies") or {}).items():
            if name in ours and theirs != ours[name]:
                raise ConfigurationError(
                    f"{origin} was trained with a {name}/dict.txt ({theirs}) that differs from the "
                    f"one in {self.cfg.data} ({ours[name]}). Use the data folder with which the "
                    "model was trained."
                )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the task state of a checkpoint, which must have the same dictionaries."""
        self.check_task_state(state_dict, "The checkpoint")
        super().load_state_dict({**state_dict, "vocabularies": self.vocabularies()})

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build a model for the stage. With `from_checkpoint`, load no pretrained weights."""
        if from_checkpoint:
            for name in (
                *text_classifier.INITIALIZATION_OPTIONS,
                "mixture_expert",
                "mixture_imitators",
            ):
                if getattr(cfg, name, None) is not None:
                    setattr(cfg, name, None)
        else:
            _check_stage(self.cfg, self.stage)
            self._store_options(cfg)
        model = super().build_model(cfg, from_checkpoint)
        stages = getattr(model, "stages", ())
        if self.stage not in stages:
            supported = " or ".join(stages) or "no stage of this task"
            raise ConfigurationError(
                f"--classification-stage is {self.stage}, but --arch "
                f"{getattr(cfg, '_name', '')} supports {supported}. Set a different stage or "
                "architecture."
            )
        return model

    def _store_options(self, cfg: Any) -> None:
        """Store the options of pretrained models in `cfg`, so that checkpoints contain them."""
        if getattr(cfg, "mixture_expert", None):
            cfg.mixture_expert_options = text_classifier.expert_options(Path(cfg.mixture_expert))
            if cfg.mixture_imitators:
                cfg.mixture_imitator_options = imitator_options(cfg.mixture_imitators, self)
        if getattr(cfg, "classifier_bert", None):
            cfg.classifier_bert_config = bert_classifier.read_config(cfg.classifier_bert)
        if encoder := getattr(cfg, "classifier_encoder", None):
            cfg.classifier_encoder_options = encoder_classifier.encoder_options(encoder)

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, *more: Any, **named: Any
    ) -> Any:
        """Run fairseq's training step. Reject sparse gradients without the optimizer `LazyAdam`."""
        if getattr(model, "has_sparse_gradients", False):
            _check_optimizer(optimizer)
        return super().train_step(sample, model, criterion, optimizer, *more, **named)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split with the views (words, subwords) that the training stage needs."""
        is_training = split == self.cfg.train_subset
        if self.stage == IMITATE:
            self.datasets[split] = self._load_with_teacher(split, is_training)
            return
        views = self._views(split, [WORDS] if self.stage == SUPERVISED else [WORDS, PIECES])
        unlabeled = None
        if is_training and self.cfg.classification_unlabeled_per_labeled:
            unlabeled = self._load_unlabeled(split)
        self.datasets[split] = TwoViewDataset(
            views,
            labels=self.labels(split),
            max_length=self.cfg.classification_max_length,
            shuffle=is_training,
            seed=self.cfg.seed,
            unlabeled=unlabeled,
            unlabeled_per_text=self.cfg.classification_unlabeled_per_labeled,
        )

    def unlabeled(self, split: str, view_names: list[str]) -> TwoViewDataset:
        """Return a dataset of the texts in a split, in their original order and without labels."""
        views = self._views(split, view_names)
        return TwoViewDataset(views, max_length=self.cfg.classification_max_length, shuffle=False)

    def inference_dataset(self, words: Any, pieces: Any) -> TwoViewDataset:
        """Return a dataset of unlabeled texts.

        `words` and `pieces` are datasets of word ids and subword ids, with </s>. `pieces` can be
        None if the model reads only words.
        """
        views = [View(WORDS, words, *self._pad_and_eos(WORDS))]
        if pieces is not None:
            views.append(View(PIECES, pieces, *self._pad_and_eos(PIECES)))
        return TwoViewDataset(views, max_length=self.cfg.classification_max_length, shuffle=False)

    def teach(self, sample: dict[str, Any]) -> torch.Tensor:
        """Return the class probabilities [batch, classes] that the expert predicts for a batch."""
        net_input = sample["net_input"]
        teacher = self.teacher.to(net_input["src_tokens"].device)
        with torch.no_grad():
            probabilities: torch.Tensor = teacher(**net_input).float().softmax(-1)
        return probabilities

    @cached_property
    def teacher(self) -> TextClassifier:
        """The expert in the checkpoint `imitator_teacher`, frozen and in evaluation mode."""
        path = Path(str(self.cfg.imitator_teacher))
        expert = text_classifier.load_expert(path, self)
        expert.eval().requires_grad_(False)
        return expert

    @property
    def source_dictionary(self) -> Any:
        """The dictionary of words."""
        return self.dictionaries[WORDS]

    @property
    def piece_dictionary(self) -> Any:
        """The dictionary of subwords."""
        if PIECES not in self.dictionaries:
            raise DataError(
                f"{Path(self.cfg.data) / PIECES / 'dict.txt'} is missing. Imitators read the texts "
                "as subwords. Prepare them with `fairseq-ssl classify prepare`."
            )
        return self.dictionaries[PIECES]

    @property
    def target_dictionary(self) -> Any:
        """The dictionary of labels."""
        return self.dictionaries[LABEL]

    def labels(self, split: str) -> ViewIds:
        """Return the class index of each line in a split. Raise DataError for an unknown label."""
        ids = self._load_view(LABEL, split)
        special = self.dictionaries[LABEL].nspecial
        labels = np.array([int(ids[line][0]) - special for line in range(len(ids))])
        wrong = np.flatnonzero((labels < 0) | (labels >= len(self.classes)))
        if len(wrong):
            raise DataError(
                f"The label of line {wrong[0] + 1} in {self.cfg.data}/{LABEL}/{split} is not in "
                f"dict.txt. Expected one of {', '.join(self.classes)}. Prepare the data again."
            )
        return labels

    def _load_with_teacher(self, split: str, is_training: bool) -> TwoViewDataset:
        """Return texts with teacher labels. A labeled split without these uses its own labels."""
        names = self._unlabeled_splits() if is_training else [split]
        folder = Path(str(self.cfg.imitator_teacher))
        online = not folder.is_dir()
        teacher: Any = None if online else self._labels_of_teacher(folder, names)
        if teacher is None and not online:
            logger.info(f"{folder} contains no class probabilities for {split}. Using its labels.")
            teacher = np.eye(len(self.classes), dtype=np.float32)[self.labels(split)]
        view_names = [PIECES, WORDS] if online else [PIECES]
        limit = self.teacher.max_positions() if online else None
        views = concat_views([self._views(name, view_names) for name in names])
        return TwoViewDataset(
            views,
            teacher=teacher,
            lines=self._epoch_lines() if is_training else None,
            max_length=utils.resolve_max_positions(limit, self.cfg.classification_max_length),
            shuffle=is_training,
            seed=self.cfg.seed,
        )

    def _labels_of_teacher(self, folder: Path, names: list[str]) -> TeacherLabels | None:
        """Return the class probabilities of all splits, or None if a labeled split lacks them."""
        parts = []
        for name in names:
            labels = open_teacher_labels(folder, name, len(self.classes))
            if labels is None and name in self._unlabeled_splits():
                raise DataError(
                    f"{folder} contains no {name}.npy or {name}.txt. Expected class probabilities "
                    "from `fairseq-ssl classify label`."
                )
            if labels is None:
                return None
            parts += labels.datasets
        return ConcatDataset(parts)

    def _load_unlabeled(self, split: str) -> TwoViewDataset:
        """Return a dataset of sampled unlabeled texts and the texts in a split, without labels."""
        names = [WORDS] if self.stage == SUPERVISED else [WORDS, PIECES]
        views = concat_views(
            [self._views(name, names) for name in (*self._unlabeled_splits(), split)]
        )
        counts = self._count_unlabeled(WORDS)
        sample = self._sample_lines(counts)
        labeled = np.arange(sum(counts), len(views[0].texts))
        return TwoViewDataset(
            views,
            lines=np.concatenate([sample, labeled]),
            max_length=self.cfg.classification_max_length,
            shuffle=False,
        )

    def _unlabeled_splits(self) -> list[str]:
        return str(self.cfg.classification_unlabeled).split(":")

    def _count_unlabeled(self, view: str) -> list[int]:
        return [len(self._load_view(view, name)) for name in self._unlabeled_splits()]

    def _epoch_lines(self) -> ViewIds:
        """Return indices of sampled unlabeled lines, repeated for full epochs if configured."""
        counts = self._count_unlabeled(PIECES)
        lines = self._sample_lines(counts)
        is_full = self.cfg.classification_full_epochs
        return np.sort(np.resize(lines, sum(counts))) if is_full else lines

    def _sample_lines(self, counts: list[int]) -> ViewIds:
        size = self.cfg.classification_unlabeled_lines
        if size is not None and size > sum(counts):
            raise ConfigurationError(
                f"--classification-unlabeled-lines is {size}, but there are only {sum(counts)} "
                "unlabeled lines. Set a smaller number."
            )
        return sample_lines(counts, size, SAMPLE_SEED)

    def _views(self, split: str, names: list[str]) -> list[View]:
        return [
            View(name, self._load_view(name, split), *self._pad_and_eos(name)) for name in names
        ]

    def _pad_and_eos(self, name: str) -> tuple[int, int]:
        dictionary = self.piece_dictionary if name == PIECES else self.dictionaries[name]
        return dictionary.pad(), dictionary.eos()

    def _load_view(self, view: str, split: str) -> Any:
        path = Path(self.cfg.data) / view / split
        dataset = data_utils.load_indexed_dataset(
            str(path), self.dictionaries.get(view), self.cfg.dataset_impl
        )
        if dataset is None:
            raise DataError(
                f"{path}.idx or .bin is missing. Expected output of `fairseq-ssl classify prepare`."
            )
        return dataset


def _check_optimizer(optimizer: Any) -> None:
    """Reject optimizers that cannot update weights with sparse gradients."""
    if isinstance(optimizer, AMPOptimizer):
        optimizer = optimizer.fp32_optimizer
    if not isinstance(optimizer, LazyAdam):
        raise ConfigurationError(
            f"The optimizer is {type(optimizer).__name__}, but --imitator-sparse-gradients needs "
            "--optimizer lazy_adam without --fp16 or --bf16. For half precision, use --amp."
        )


def _check_stage(cfg: SemiSupervisedClassificationConfig, stage: str) -> None:
    """Reject options that training in this stage ignores. Loaded checkpoints may contain them."""
    ratio, lines = cfg.classification_unlabeled_per_labeled, cfg.classification_unlabeled_lines
    for name, is_ignored in (
        ("classification_full_epochs", cfg.classification_full_epochs and stage != IMITATE),
        ("classification_unlabeled_per_labeled", ratio and stage == IMITATE),
        ("classification_unlabeled_lines", lines and not ratio and stage != IMITATE),
    ):
        if is_ignored:
            raise ConfigurationError(
                f"{flag(name)} has no effect with --classification-stage {stage} and "
                f"--classification-unlabeled-per-labeled {ratio}. Remove it."
            )


def _check(cfg: SemiSupervisedClassificationConfig, stage: str) -> None:
    """Require an existing teacher in the stage imitate. Reject a teacher in other stages."""
    if stage == IMITATE and cfg.imitator_teacher is None:
        raise ConfigurationError(
            "--classification-stage imitate needs --imitator-teacher, a folder from `fairseq-ssl "
            "classify label` or the checkpoint of an expert."
        )
    if stage != IMITATE and cfg.imitator_teacher is not None:
        raise ConfigurationError(
            f"--imitator-teacher needs --classification-stage imitate, but the stage is {stage}. "
            "Remove --imitator-teacher or change the stage."
        )
    if stage == IMITATE and not Path(str(cfg.imitator_teacher)).exists():
        raise ConfigurationError(
            f"--imitator-teacher {cfg.imitator_teacher} does not exist. Expected a folder or a "
            "checkpoint."
        )
