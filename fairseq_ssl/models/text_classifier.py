"""Text classifiers (experts in MEIN): base class, classification head, checkpoint loading."""

import json
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import models
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_ssl.checkpoints.files import model_options, read_checkpoint
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.common import StoredConfig
from fairseq_ssl.options import option


def require_classes(task: Any, arch: str) -> None:
    """Raise ConfigurationError unless the task has `classes`, as classification tasks do."""
    if getattr(task, "classes", None) is None:
        raise ConfigurationError(
            f"--arch {arch} needs a classification task. Set --task semi_supervised_classification."
        )


class TextClassifier(BaseFairseqModel):
    """Base class of classifiers. Adversarial losses perturb the output of `embed`."""

    stages: tuple[str, ...] = ("supervised",)
    """Values of --classification-stage with which the model can be trained."""

    @abstractmethod
    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return word embeddings [batch, time, dim], with dropout in training."""

    @abstractmethod
    def classify(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits z [batch, classes] for embedded texts."""

    def precompute(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `inputs` and further arguments of `forward` that do not depend on embeddings.

        Call this method once per batch, before calls of `forward` with different perturbations.
        """
        return inputs

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        embedded: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Return the logits [batch, classes].

        Args:
            src_tokens: [batch, time], ids that end with </s>, padded on the right.
            src_lengths: [batch], lengths including </s>.
            embedded: [batch, time, dim], embeddings to use instead of embedding `src_tokens`.
        """
        embedded = self.embed(src_tokens) if embedded is None else embedded
        return self.classify(embedded, src_tokens, src_lengths)


MEAN, FIRST = "mean", "first"
POOLS = (MEAN, FIRST)


@dataclass
class PooledConfig(StoredConfig):
    """Options of the classification head."""

    classifier_mlp_dim: int = option(30, "hidden dimension of the classification head", low=1)
    classifier_pool: ChoiceEnum(POOLS) = option(  # type: ignore[valid-type]
        POOLS[0],
        "pooling of a text's encoder states; mean: mean of all states; first: first state",
        choices=POOLS,
    )
    classifier_dropout: float = option(
        0.1, "dropout probability of embeddings and pooled states", low=0, below=1
    )


class ClassificationHead(nn.Module):
    """A classification head with one hidden layer: z = W ReLU(W_h h + b_h) + b.

    h is the mean of the encoder's states or the first state, depending on `classifier_pool`.
    """

    def __init__(self, cfg: PooledConfig, dim: int, classes: int) -> None:
        """Build the head for encoder states of dimension `dim` and for `classes` classes."""
        super().__init__()
        self.pool = str(cfg.classifier_pool)
        self.dropout = nn.Dropout(cfg.classifier_dropout)
        self.hidden = nn.Linear(dim, cfg.classifier_mlp_dim)
        self.output = nn.Linear(cfg.classifier_mlp_dim, classes)

    def forward(self, states: Tensor, is_word: Tensor) -> Tensor:
        """Return the logits [batch, classes].

        Args:
            states: [batch, time, dim], the encoder's states.
            is_word: [batch, time], True for states to average, at least one per text.
        """
        if self.pool == FIRST:
            pooled = states[:, 0]
        else:
            weights = is_word.type_as(states)
            weights = weights / weights.sum(1, keepdim=True)
            pooled = torch.einsum("bt,btd->bd", weights, states.masked_fill(~is_word[..., None], 0))
        logits: Tensor = self.output(self.hidden(self.dropout(pooled)).relu())
        return logits


INITIALIZATION_OPTIONS = (
    "classifier_lm",
    "classifier_lm_dict",
    "classifier_bert",
    "classifier_encoder",
    "classifier_encoder_dict",
)
"""Options that initialize a model from files. They are not needed to load a checkpoint."""


def expert_options(path: Path) -> str:
    """Return a checkpoint's model options, except `INITIALIZATION_OPTIONS`, as a JSON string."""
    options = model_options(read_checkpoint(path))
    kept = {key: value for key, value in options.items() if key not in INITIALIZATION_OPTIONS}
    return json.dumps(kept)


def build_expert(options: str, task: Any, origin: str) -> TextClassifier:
    """Build a classifier, with random weights, from options returned by `expert_options`.

    `origin` is the name of the checkpoint in error messages.
    """
    cfg = json.loads(options)
    model = models.build_model(OmegaConf.create(cfg), task, from_checkpoint=True)
    if not isinstance(model, TextClassifier):
        raise ConfigurationError(
            f"{origin} has the architecture {cfg.get('_name')}. Expected a classifier trained with "
            "--classification-stage supervised."
        )
    return model


def load_expert(path: Path, task: Any) -> TextClassifier:
    """Load a classifier from a checkpoint, which must have the task's vocabularies."""
    expert = build_expert(expert_options(path), task, str(path))
    expert.load_state_dict(read_checkpoint_of_task(path, task)["model"])
    return expert


def read_checkpoint_of_task(path: Path, task: Any) -> dict[str, Any]:
    """Read a checkpoint. Raise ConfigurationError if the task has different vocabularies."""
    state = read_checkpoint(path)
    task.check_task_state(state.get("task_state") or {}, str(path))
    return state
