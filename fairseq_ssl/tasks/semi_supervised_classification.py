"""Classify texts with an expert, its imitators, or both (MEIN)."""

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II

from fairseq_ssl.data.classification_folder import LABEL
from fairseq_ssl.data.teacher_labels import TeacherLabels, open_teacher_labels
from fairseq_ssl.data.two_view_dataset import (
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
from fairseq_ssl.text.vocabulary import is_padding_entry

logger = logging.getLogger(__name__)

SUPERVISED, IMITATE, MIXTURE = "supervised", "imitate", "mixture"
STAGES = ChoiceEnum([SUPERVISED, IMITATE, MIXTURE])
SUBSET_SEED = 1
"""Of which unlabeled lines a part of them has; smaller parts are in larger ones."""


@dataclass
class SemiSupervisedClassificationConfig(FairseqDataclass):
    """Where the data is, and which step of the training it is for."""

    data: str = field(
        default="",
        metadata={
            "help": "folder with words/, pieces/ and label/, each with dict.txt and binarized "
            "splits of the same lines, as `fairseq-ssl classify prepare` makes it"
        },
    )
    classification_stage: STAGES = field(  # type: ignore[valid-type]
        default=STAGES.supervised,
        metadata={
            "help": "supervised: train an expert on labels; imitate: train imitators on what an "
            "expert says of unlabeled texts; mixture: train the expert again with its imitators "
            "beside it (default: supervised)"
        },
    )
    classification_max_length: Optional[int] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "words of a text that an expert reads at most, the last ones and </s>; 1 or "
            "more (default: all)"
        },
    )
    classification_unlabeled: str = field(
        default="unlabeled",
        metadata={
            "help": "split without labels, or several with : between, such as unlabeled:extra "
            "(default: unlabeled)"
        },
    )
    classification_unlabeled_lines: Optional[int] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "how many of the unlabeled lines to use, drawn so that fewer are among more, "
            "those of the first split before those of the next; 1 or more (default: all)"
        },
    )
    classification_full_epochs: bool = field(
        default=False,
        metadata={
            "help": "imitate: repeat the chosen lines until an epoch has as many texts as there "
            "are unlabeled lines, so that an epoch of fewer lines has as many updates"
        },
    )
    unlabeled_per_labeled: int = field(
        default=0,
        metadata={
            "help": "texts drawn for each labeled one, unlabeled and labeled ones alike, for "
            "the criterion virtual_adversarial_cross_entropy; 0 or more (default: 0)"
        },
    )
    imitator_teacher: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "imitate: whom to imitate: a folder with the probabilities of the lines, as "
            "`fairseq-ssl classify label` writes it, or the checkpoint of an expert, which is "
            "asked in each epoch anew"
        },
    )
    train_subset: str = II("dataset.train_subset")
    dataset_impl: Any = II("dataset.dataset_impl")  # noqa: RUF009 - as fairseq does
    seed: int = II("common.seed")


@register_task("semi_supervised_classification", dataclass=SemiSupervisedClassificationConfig)
class SemiSupervisedClassificationTask(FairseqTask):
    """The three steps of algorithm 1 of the thesis, each a training of its own."""

    cfg: SemiSupervisedClassificationConfig

    def __init__(
        self, cfg: SemiSupervisedClassificationConfig, dictionaries: dict[str, Any]
    ) -> None:
        super().__init__(cfg)
        self.stage = str(cfg.classification_stage)
        self.dictionaries = dictionaries
        labels = dictionaries[LABEL]
        self.classes = [
            one for one in labels.symbols[labels.nspecial :] if not is_padding_entry(one)
        ]
        _check(cfg, self.stage)
        self._teacher: TextClassifier | None = None
        self.state.merge_state_dict({"vocabularies": self.vocabularies()})

    @classmethod
    def setup_task(
        cls, cfg: SemiSupervisedClassificationConfig, **options: Any
    ) -> "SemiSupervisedClassificationTask":
        """Load the dictionaries."""
        flush_denormals()  # before there is any work for torch's threads
        folder = Path(cfg.data)
        found = {}
        for name in (WORDS, PIECES, LABEL):
            path = folder / name / "dict.txt"
            if path.exists():
                found[name] = Dictionary.load(str(path))
            elif name != PIECES:
                raise DataError(
                    f"{path} is missing. Expected what `fairseq-ssl classify prepare` writes."
                )
        counts = ", ".join(f"{len(one)} {name}" for name, one in found.items())
        logger.info(f"dictionaries of {counts}")
        return cls(cfg, found)

    def vocabularies(self) -> dict[str, str]:
        """Return what tells each dictionary from others, and how large it is."""
        return {name: _mark(one.symbols) for name, one in self.dictionaries.items()}

    def check_vocabularies(self, state: dict[str, Any], origin: str) -> None:
        """Refuse what was trained with other dictionaries."""
        ours = self.vocabularies()
        for name, mark in (state.get("vocabularies") or {}).items():
            if name in ours and mark != ours[name]:
                raise ConfigurationError(
                    f"{origin} was trained with another {name}/dict.txt ({mark}) than "
                    f"{self.cfg.data} has ({ours[name]}). Use the data folder of its training."
                )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what a checkpoint knows of the task; refuse it if it has other dictionaries."""
        self.check_vocabularies(state_dict, "The checkpoint")
        super().load_state_dict({**state_dict, "vocabularies": self.vocabularies()})

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Make the model; one that a checkpoint fills needs nothing to start from."""
        if from_checkpoint:
            for name in (
                *text_classifier.INITIALIZATION_OPTIONS,
                "mixture_expert",
                "mixture_imitators",
            ):
                if getattr(cfg, name, None) is not None:
                    setattr(cfg, name, None)
        else:
            self._record(cfg)
        model = super().build_model(cfg, from_checkpoint)
        stages = getattr(model, "stages", ())
        if self.stage not in stages:
            wanted = " or ".join(stages) or "no stage of this task"
            raise ConfigurationError(
                f"--arch {getattr(cfg, '_name', '')} is for {wanted}, and --classification-stage "
                f"is {self.stage}."
            )
        return model

    def _record(self, cfg: Any) -> None:
        """Write into the options what the files to start from tell, for the checkpoint to keep."""
        if getattr(cfg, "mixture_expert", None):
            cfg.mixture_expert_options = text_classifier.expert_options(Path(cfg.mixture_expert))
            if cfg.mixture_imitators:
                cfg.mixture_imitator_options = imitator_options(cfg.mixture_imitators, self)
        if getattr(cfg, "classifier_bert", None):
            cfg.classifier_bert_config = bert_classifier.read_config(cfg.classifier_bert)
        if getattr(cfg, "classifier_encoder", None):
            cfg.classifier_encoder_options = encoder_classifier.encoder_options(
                cfg.classifier_encoder
            )

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split in the views that the stage needs; to imitate, train has no labels."""
        is_training = split == self.cfg.train_subset
        if self.stage == IMITATE:
            self.datasets[split] = self._taught(split, is_training)
            return
        views = self._views(split, [WORDS] if self.stage == SUPERVISED else [WORDS, PIECES])
        unlabeled = self._others(split) if is_training and self.cfg.unlabeled_per_labeled else None
        self.datasets[split] = TwoViewDataset(
            views,
            labels=self.labels(split),
            max_length=self.cfg.classification_max_length,
            shuffle=is_training,
            seed=self.cfg.seed,
            unlabeled=unlabeled,
            unlabeled_per_text=self.cfg.unlabeled_per_labeled,
        )

    def unlabeled(self, split: str, view_names: list[str]) -> TwoViewDataset:
        """Return the texts of a split, in its order, without their labels."""
        views = self._views(split, view_names)
        return TwoViewDataset(views, max_length=self.cfg.classification_max_length, shuffle=False)

    def inference_dataset(self, words: Any, pieces: Any) -> TwoViewDataset:
        """Take texts from elsewhere, as data sets of ids, each ended by </s>; pieces if any."""
        views = [View(WORDS, words, *self._marks(WORDS))]
        if pieces is not None:
            views.append(View(PIECES, pieces, *self._marks(PIECES)))
        return TwoViewDataset(views, max_length=self.cfg.classification_max_length, shuffle=False)

    def teach(self, sample: dict[str, Any]) -> torch.Tensor:
        """Return p(y|X) of the expert that is asked anew [batch, classes]."""
        if self._teacher is None:
            path = Path(str(self.cfg.imitator_teacher))
            self._teacher = text_classifier.load_expert(path, self).eval().requires_grad_(False)
        net_input = sample["net_input"]
        teacher = self._teacher.to(net_input["src_tokens"].device)
        with torch.no_grad():
            found: torch.Tensor = teacher(**net_input).float().softmax(-1)
        return found

    @property
    def source_dictionary(self) -> Any:
        """Return the dictionary of the words."""
        return self.dictionaries[WORDS]

    @property
    def piece_dictionary(self) -> Any:
        """Return that of the pieces."""
        if PIECES not in self.dictionaries:
            raise DataError(
                f"{Path(self.cfg.data) / PIECES / 'dict.txt'} is missing. Imitators need subwords "
                "of the same lines: make them with `fairseq-ssl classify prepare`."
            )
        return self.dictionaries[PIECES]

    @property
    def target_dictionary(self) -> Any:
        """Return that of the labels."""
        return self.dictionaries[LABEL]

    def max_positions(self) -> Any:
        """Leave it to the model how long a text may be."""
        return None

    def labels(self, split: str) -> ViewIds:
        """Return the number of the class of each line."""
        found = self._indexed(LABEL, split)
        special = self.dictionaries[LABEL].nspecial
        labels = np.array([int(found[line][0]) - special for line in range(len(found))])
        wrong = np.flatnonzero((labels < 0) | (labels >= len(self.classes)))
        if len(wrong):
            raise DataError(
                f"Line {wrong[0] + 1} of {split} in {self.cfg.data}/{LABEL} has no label of "
                f"dict.txt. Expected one of {', '.join(self.classes)}."
            )
        return labels

    def _taught(self, split: str, is_training: bool) -> TwoViewDataset:
        """Return texts with what the teacher says of them; where it is silent, their labels."""
        names = self._unlabeled_splits() if is_training else [split]
        folder = Path(str(self.cfg.imitator_teacher))
        online = not folder.is_dir()
        teacher = None if online else self._labels_of_teacher(folder, names)
        if teacher is None and not online:
            logger.info(f"{folder} knows nothing of {split}: its labels are taken")
            teacher = TeacherLabels(
                [np.eye(len(self.classes), dtype=np.float32)[self.labels(split)]]
            )
        view_names = [PIECES, WORDS] if online else [PIECES]
        views = concat_views([self._views(name, view_names) for name in names])
        return TwoViewDataset(
            views,
            teacher=teacher,
            lines=self._lines_of_epoch() if is_training else None,
            max_length=self.cfg.classification_max_length,
            shuffle=is_training,
            seed=self.cfg.seed,
        )

    def _labels_of_teacher(self, folder: Path, names: list[str]) -> TeacherLabels | None:
        """Return the teacher's labels of splits; None for a labeled split without any."""
        parts = []
        for name in names:
            found = open_teacher_labels(folder, name, len(self.classes))
            if found is None and name in self._unlabeled_splits():
                raise DataError(
                    f"{folder} has no {name}.npy or {name}.txt. Expected probabilities of its "
                    "lines, as `fairseq-ssl classify label` writes them."
                )
            if found is None:
                return None
            parts += found.parts
        return TeacherLabels(parts)

    def _others(self, split: str) -> TwoViewDataset:
        """Return texts to draw from whose labels do not count: unlabeled ones, and a split's."""
        names = [WORDS] if self.stage == SUPERVISED else [WORDS, PIECES]
        views = concat_views(
            [self._views(one, names) for one in (*self._unlabeled_splits(), split)]
        )
        counts = self._counts_unlabeled(WORDS)
        some = self._some_lines(counts)
        labeled = np.arange(sum(counts), len(views[0].texts))
        return TwoViewDataset(
            views,
            lines=np.concatenate([some, labeled]),
            max_length=self.cfg.classification_max_length,
            shuffle=False,
        )

    def _unlabeled_splits(self) -> list[str]:
        return str(self.cfg.classification_unlabeled).split(":")

    def _counts_unlabeled(self, view: str) -> list[int]:
        return [len(self._indexed(view, name)) for name in self._unlabeled_splits()]

    def _lines_of_epoch(self) -> ViewIds:
        """Return the chosen unlabeled lines, repeated if epochs are to be full."""
        counts = self._counts_unlabeled(PIECES)
        lines = self._some_lines(counts)
        is_full = self.cfg.classification_full_epochs
        return np.sort(np.resize(lines, sum(counts))) if is_full else lines

    def _some_lines(self, counts: list[int]) -> ViewIds:
        wanted = self.cfg.classification_unlabeled_lines
        if wanted is not None and wanted > sum(counts):
            raise ConfigurationError(
                f"--classification-unlabeled-lines is {wanted}, and there are {sum(counts)} lines."
            )
        return sample_lines(counts, wanted, SUBSET_SEED)

    def _views(self, split: str, names: list[str]) -> list[View]:
        return [View(name, self._indexed(name, split), *self._marks(name)) for name in names]

    def _marks(self, name: str) -> tuple[int, int]:
        dictionary = self.piece_dictionary if name == PIECES else self.dictionaries[name]
        return dictionary.pad(), dictionary.eos()

    def _indexed(self, view: str, split: str) -> Any:
        path = Path(self.cfg.data) / view / split
        found = data_utils.load_indexed_dataset(
            str(path), self.dictionaries.get(view), self.cfg.dataset_impl
        )
        if found is None:
            raise FileNotFoundError(
                f"{path}.idx is missing. Expected what `fairseq-ssl classify prepare` writes."
            )
        return found


def _mark(symbols: list[str]) -> str:
    digest = hashlib.sha256("\n".join(symbols).encode()).hexdigest()
    return f"{len(symbols)} symbols, {digest[:12]}"


def _check(cfg: SemiSupervisedClassificationConfig, stage: str) -> None:
    """Refuse values out of their range, and what goes with another stage."""
    for name in ("classification_max_length", "classification_unlabeled_lines"):
        value = getattr(cfg, name)
        if value is not None and value < 1:
            option = flag(name)
            raise ConfigurationError(f"{option} is {value}; expected 1 or more.")
    if cfg.unlabeled_per_labeled < 0:
        raise ConfigurationError(
            f"--unlabeled-per-labeled is {cfg.unlabeled_per_labeled}; expected 0 or more."
        )
    if stage == IMITATE and cfg.imitator_teacher is None:
        raise ConfigurationError(
            "--classification-stage imitate needs --imitator-teacher: a folder that `fairseq-ssl "
            "classify label` wrote, or an expert's checkpoint."
        )
    if stage != IMITATE and cfg.imitator_teacher is not None:
        raise ConfigurationError(
            f"--imitator-teacher goes with --classification-stage imitate, and it is {stage}."
        )
    if stage == IMITATE and not Path(str(cfg.imitator_teacher)).exists():
        raise ConfigurationError(f"--imitator-teacher {cfg.imitator_teacher} does not exist.")
