"""An LSTM with a perceptron over its last state: the expert of the thesis, section 3.4 (MEIN)."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.models import register_model, register_model_architecture
from torch import Tensor, nn

from fairseq_ssl.checkpoints.partial_init import recurrent_encoder_weights
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.architecture_defaults import fill_defaults
from fairseq_ssl.models.classification_task import require_task
from fairseq_ssl.models.recurrent_options import RecurrentConfig, recurrent_encoder
from fairseq_ssl.models.text_classifier import TextClassifier

logger = logging.getLogger(__name__)


@dataclass
class LstmClassifierConfig(RecurrentConfig):
    """The options of the model."""

    classifier_mlp_dim: int = field(
        default=30,
        metadata={
            "help": "size of the layer between the LSTM and the classes, the thesis' M: 30 for "
            "sentiment, 128 for the categories of RCV1 (default: 30)"
        },
    )
    classifier_lm: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "start embeddings and LSTM from this checkpoint of a recurrent_lm; words are "
            "found by their names (default: at random)"
        },
    )
    classifier_lm_dict: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "dictionary of that language model, which a checkpoint needs"},
    )


@register_model("lstm_classifier", dataclass=LstmClassifierConfig)
class LstmClassifier(TextClassifier):
    """p(y|X) = softmax(z), equations 3.1 and 3.2."""

    def __init__(self, cfg: LstmClassifierConfig, dictionary: Any, classes: int) -> None:
        """Make the model of a dictionary of words and a number of classes."""
        super().__init__()
        if cfg.classifier_mlp_dim < 1:
            raise ConfigurationError(
                f"--classifier-mlp-dim is {cfg.classifier_mlp_dim}; expected 1 or more."
            )
        self.encoder = recurrent_encoder(cfg, dictionary)
        self.hidden = nn.Linear(cfg.recurrent_hidden_dim, cfg.classifier_mlp_dim)
        self.output = nn.Linear(cfg.classifier_mlp_dim, classes)

    @classmethod
    def build_model(cls, cfg: LstmClassifierConfig, task: Any) -> "LstmClassifier":
        """Make the model for a task of classification; start it from a language model if told."""
        require_task(task, "lstm_classifier")
        model = cls(cfg, task.source_dictionary, len(task.classes))
        if cfg.classifier_lm is not None:
            start = model.encoder.state_dict()
            found, known = recurrent_encoder_weights(
                Path(cfg.classifier_lm),
                task.source_dictionary.symbols,
                start,
                None if cfg.classifier_lm_dict is None else Path(cfg.classifier_lm_dict),
            )
            for name, weight in found.items():
                start[name].copy_(weight)
            logger.info(
                f"embeddings of {known} of {len(task.source_dictionary)} symbols, and the LSTM, "
                f"from {cfg.classifier_lm}"
            )
        return model

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return E x_t with dropout [batch, time, embed_dim]."""
        return self.encoder.embed(src_tokens)

    def scored(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return z = W ReLU(W_h h_T + b_h) + b [batch, classes]."""
        states = self.encoder.last(embedded, src_lengths)
        logits: Tensor = self.output(self.hidden(states).relu())
        return logits

    def max_positions(self) -> None:
        """A text may be of any length."""


@register_model_architecture("lstm_classifier", "lstm_classifier_categories")
def lstm_classifier_categories(args: Any) -> None:
    """The size of the thesis for RCV1, table 3.2."""
    fill_defaults(args, classifier_mlp_dim=128)
