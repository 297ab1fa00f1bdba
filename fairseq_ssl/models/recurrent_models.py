"""Recurrent models: the LSTM classifier (an expert) and its language model (MEIN)."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    FairseqDecoder,
    FairseqLanguageModel,
    register_model,
    register_model_architecture,
)
from fairseq.modules import AdaptiveSoftmax
from torch import Tensor, nn

from fairseq_ssl.checkpoints.partial_init import recurrent_encoder_weights
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models.architecture_defaults import fill_defaults
from fairseq_ssl.models.text_classifier import TextClassifier, require_task
from fairseq_ssl.modules.recurrent_encoder import RecurrentEncoder, RecurrentSizes, flush_denormals
from fairseq_ssl.text.specs import parse_integers


@dataclass
class RecurrentConfig(FairseqDataclass):
    """Sizes as in table 3.2 of the thesis."""

    recurrent_embed_dim: int = field(
        default=256, metadata={"help": "size of word embeddings, the thesis' D (default: 256)"}
    )
    recurrent_hidden_dim: int = field(
        default=1024, metadata={"help": "size of the LSTM's states, the thesis' H (default: 1024)"}
    )
    recurrent_layers: int = field(
        default=1, metadata={"help": "layers of the LSTM, 1 or more (default: 1)"}
    )
    recurrent_dropout: float = field(
        default=0.5,
        metadata={"help": "dropout of embeddings, from 0 to below 1 (default: 0.5)"},
    )
    recurrent_dropout_by_text: bool = field(
        default=False,
        metadata={"help": "leave out the same dimensions of all words of a text"},
    )
    recurrent_normalize_embeddings: bool = field(
        default=False,
        metadata={
            "help": "give embeddings mean 0 and variance 1, each word counted as often as the "
            "dictionary has it: for adversarial training, and then for its language model as well"
        },
    )
    recurrent_keep_denormals: bool = field(
        default=False,
        metadata={
            "help": "compute with the smallest of numbers too; on a CPU the training of long texts "
            "takes many times as long then"
        },
    )


def recurrent_encoder(cfg: Any, dictionary: Any) -> RecurrentEncoder:
    """Make the encoder of a dictionary; refuse options out of their range."""
    for name in ("embed_dim", "hidden_dim", "layers"):
        if getattr(cfg, f"recurrent_{name}") < 1:
            raise ConfigurationError(
                f"{flag(f'recurrent_{name}')} is {getattr(cfg, f'recurrent_{name}')}; "
                "expected 1 or more."
            )
    if not 0 <= cfg.recurrent_dropout < 1:
        raise ConfigurationError(
            f"--recurrent-dropout is {cfg.recurrent_dropout}; expected 0 to below 1."
        )
    flush_denormals(not cfg.recurrent_keep_denormals)
    sizes = RecurrentSizes(
        vocabulary=len(dictionary),
        embed_dim=cfg.recurrent_embed_dim,
        hidden_dim=cfg.recurrent_hidden_dim,
        layers=cfg.recurrent_layers,
        dropout=cfg.recurrent_dropout,
        same_for_all_words=cfg.recurrent_dropout_by_text,
    )
    counts = list(dictionary.count) if cfg.recurrent_normalize_embeddings else None
    return RecurrentEncoder(sizes, dictionary.pad(), counts)


@dataclass
class RecurrentLanguageModelConfig(RecurrentConfig):
    """The options of the model."""

    lm_adaptive_cutoffs: str = field(
        default="2000,10000",
        metadata={
            "help": "where the more frequent words end and rarer ones, with smaller projections, "
            "begin; those beyond the vocabulary are left out (default: 2000,10000)"
        },
    )
    lm_adaptive_factor: float = field(
        default=4.0,
        metadata={"help": "how much smaller each next projection is, above 1 (default: 4)"},
    )


class RecurrentDecoder(FairseqDecoder):
    """States of an LSTM, and an adaptive softmax for --criterion adaptive_loss."""

    def __init__(self, cfg: Any, dictionary: Any) -> None:
        super().__init__(dictionary)
        self.encoder = recurrent_encoder(cfg, dictionary)
        size = len(dictionary)
        cutoffs = [cutoff for cutoff in _cutoffs(cfg) if cutoff < size] or [size]
        self.adaptive_softmax = AdaptiveSoftmax(
            size,
            cfg.recurrent_hidden_dim,
            cutoffs,
            dropout=cfg.recurrent_dropout,
            factor=cfg.lm_adaptive_factor,
        )

    def forward(self, prev_output_tokens: Tensor, **_: Any) -> tuple[Tensor, None]:
        """Return the state after each of the words [batch, time, hidden_dim]."""
        return self.encoder.states(self.encoder.embed(prev_output_tokens)), None


@register_model("recurrent_lm", dataclass=RecurrentLanguageModelConfig)
class RecurrentLanguageModel(FairseqLanguageModel):
    """Predicts each word from those before it; for --task language_modeling."""

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RecurrentLanguageModel":
        """Make the model of the task's dictionary."""
        return cls(RecurrentDecoder(cfg, task.source_dictionary))


def _cutoffs(cfg: Any) -> list[int]:
    found = parse_integers(cfg.lm_adaptive_cutoffs, least=1)
    if found is None or list(found) != sorted(set(found)):
        raise ConfigurationError(
            f"--lm-adaptive-cutoffs is {cfg.lm_adaptive_cutoffs!r}; expected rising numbers of "
            "words, as 2000,10000."
        )
    if cfg.lm_adaptive_factor <= 1:
        raise ConfigurationError(
            f"--lm-adaptive-factor is {cfg.lm_adaptive_factor}; expected above 1."
        )
    return list(found)


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
