"""Text classifiers: the interface of an expert, pooling over states, loading a trained one."""

import json
from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import models
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import BaseFairseqModel
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_ssl.checkpoints.files import model_options, read_checkpoint
from fairseq_ssl.errors import ConfigurationError

CLASSIFICATION_TASK = "semi_supervised_classification"


def require_task(task: Any, arch: str) -> None:
    """Refuse a task without classes."""
    if getattr(task, "classes", None) is None:
        raise ConfigurationError(
            f"A model {arch} classifies texts. Use it with --task {CLASSIFICATION_TASK}."
        )


class TextClassifier(BaseFairseqModel):
    """Scores the classes of texts; its embeddings can be had, and disturbed, by themselves."""

    stages: tuple[str, ...] = ("supervised",)
    """Of --classification-stage: what it can be trained in."""

    @abstractmethod
    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return the embeddings of words [batch, time, dim], with dropout in training."""

    @abstractmethod
    def scored(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits z [batch, classes] of embedded texts."""

    def settled(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return inputs of `forward` with what no disturbance of embeddings changes.

        For those who ask more than once: it is computed here and not again.
        """
        return inputs

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        embedded: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Return the logits of the classes [batch, classes].

        Args:
            src_tokens: ids [batch, time], each text ended by </s>, padded on the right
            src_lengths: [batch], the ends counted
            embedded: embeddings to take in place of those of the words
        """
        embedded = self.embed(src_tokens) if embedded is None else embedded
        return self.scored(embedded, src_tokens, src_lengths)


MEAN, FIRST = "mean", "first"
POOLS = (MEAN, FIRST)


class PooledClasses(nn.Module):
    """z = W ReLU(W_h h + b_h) + b, of the mean h of a text's states, or of its first state."""

    def __init__(self, dim: int, inner_dim: int, classes: int, pool: str, dropout: float) -> None:
        super().__init__()
        self.pool = pool
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(dim, inner_dim)
        self.output = nn.Linear(inner_dim, classes)

    def forward(self, states: Tensor, is_word: Tensor) -> Tensor:
        """Return logits [batch, classes].

        Args:
            states: [batch, time, dim]
            is_word: what of them counts [batch, time]; every text has something
        """
        if self.pool == FIRST:
            pooled = states[:, 0]
        else:
            shares = is_word.type_as(states)
            shares = shares / shares.sum(1, keepdim=True)
            pooled = torch.einsum("bt,btd->bd", shares, states.masked_fill(~is_word[..., None], 0))
        logits: Tensor = self.output(self.hidden(self.dropout(pooled)).relu())
        return logits


@dataclass
class PooledConfig(FairseqDataclass):
    """How classes are told from states."""

    classifier_mlp_dim: int = field(
        default=30,
        metadata={"help": "size of the layer between the encoder and the classes (default: 30)"},
    )
    classifier_pool: ChoiceEnum(POOLS) = field(  # type: ignore[valid-type]
        default=POOLS[0],
        metadata={"help": "what stands for a text: the mean of its states, or the first of them"},
    )
    classifier_dropout: float = field(
        default=0.1,
        metadata={"help": "dropout of embeddings and of that, 0 to 1 (default: 0.1)"},
    )


def pooled_classes(cfg: PooledConfig, dim: int, classes: int) -> PooledClasses:
    """Make what scores classes; refuse what it can not be."""
    if cfg.classifier_mlp_dim < 1 or not 0 <= cfg.classifier_dropout < 1:
        raise ConfigurationError(
            f"--classifier-mlp-dim is {cfg.classifier_mlp_dim} and --classifier-dropout "
            f"{cfg.classifier_dropout}; expected 1 or more, and 0 to 1."
        )
    pool = str(cfg.classifier_pool)
    return PooledClasses(dim, cfg.classifier_mlp_dim, classes, pool, cfg.classifier_dropout)


STARTS = (
    "classifier_lm",
    "classifier_lm_dict",
    "classifier_bert",
    "classifier_encoder",
    "classifier_encoder_dict",
)
"""Options that tell what a model starts from; its checkpoint does without them."""


def expert_options(path: Path) -> str:
    """Return the options of the model in a checkpoint, as JSON."""
    options = model_options(read_checkpoint(path))
    return json.dumps({name: value for name, value in options.items() if name not in STARTS})


def built_expert(options: str, task: Any, origin: str) -> TextClassifier:
    """Make a classifier of such options, at random."""
    cfg = json.loads(options)
    model = models.build_model(OmegaConf.create(cfg), task, from_checkpoint=True)
    if not isinstance(model, TextClassifier):
        raise ConfigurationError(
            f"{origin} holds a {cfg.get('_name')}; expected a classifier, trained with "
            "--classification-stage supervised."
        )
    return model


def loaded_expert(path: Path, task: Any) -> TextClassifier:
    """Return the classifier that a checkpoint holds; its vocabulary must be the task's."""
    expert = built_expert(expert_options(path), task, str(path))
    expert.load_state_dict(checked_state(path, task)["model"])
    return expert


def checked_state(path: Path, task: Any) -> dict[str, Any]:
    """Read a checkpoint; refuse one of other vocabularies than the task's."""
    state = read_checkpoint(path)
    task.check_vocabularies(state.get("task_state") or {}, str(path))
    return state
