"""LSTM text classifier, and an LSTM language model to initialize it (MEIN)."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqDecoder, FairseqLanguageModel
from fairseq.modules import AdaptiveSoftmax
from torch import Tensor, nn

from fairseq_ssl.checkpoints.partial_init import recurrent_encoder_weights
from fairseq_ssl.models.common import register_model
from fairseq_ssl.models.text_classifier import TextClassifier, require_classes
from fairseq_ssl.modules.recurrent_encoder import RecurrentEncoder, RecurrentSizes, flush_denormals
from fairseq_ssl.options import option

logger = logging.getLogger(__name__)

CUTOFFS = (2_000, 10_000)
"""Adaptive softmax cutoffs of language models, used if they are below the vocabulary size."""


@dataclass
class RecurrentConfig(FairseqDataclass):
    """Options of the LSTM encoder. The defaults are from Kiyono (2022), table 3.2."""

    recurrent_embed_dim: int = option(256, "word embedding dimension", low=1)
    recurrent_hidden_dim: int = option(1024, "LSTM hidden dimension", low=1)
    recurrent_layers: int = option(1, "number of LSTM layers", low=1)
    recurrent_dropout: float = option(
        0.5,
        "dropout probability; dropout is applied to embeddings, between LSTM layers, and in the "
        "language model's adaptive softmax",
        low=0,
        below=1,
    )
    recurrent_embed_std: float = option(
        0.06,
        "standard deviation of initial embeddings; higher values slow down the training of "
        "normalized embeddings",
        above=0,
    )
    recurrent_normalize_embeddings: bool = option(
        False,
        "normalize embeddings to mean 0 and variance 1, weighted by word frequency, for "
        "adversarial training; set this for both the classifier and its language model",
    )


def build_recurrent_encoder(cfg: Any, dictionary: Any) -> RecurrentEncoder:
    """Build an LSTM encoder for a word dictionary. Make torch flush denormal numbers to 0."""
    flush_denormals()
    sizes = RecurrentSizes(
        vocabulary=len(dictionary),
        embed_dim=cfg.recurrent_embed_dim,
        hidden_dim=cfg.recurrent_hidden_dim,
        layers=cfg.recurrent_layers,
        dropout=cfg.recurrent_dropout,
        embed_std=cfg.recurrent_embed_std,
    )
    counts = list(dictionary.count) if cfg.recurrent_normalize_embeddings else None
    return RecurrentEncoder(sizes, dictionary.pad(), counts)


class RecurrentDecoder(FairseqDecoder):
    """An LSTM with an adaptive softmax, for --criterion adaptive_loss."""

    def __init__(self, cfg: Any, dictionary: Any) -> None:
        super().__init__(dictionary)
        self.encoder = build_recurrent_encoder(cfg, dictionary)
        size = len(dictionary)
        cutoffs = [cutoff for cutoff in CUTOFFS if cutoff < size] or [size]
        self.adaptive_softmax = AdaptiveSoftmax(
            size,
            cfg.recurrent_hidden_dim,
            cutoffs,
            dropout=cfg.recurrent_dropout,
        )

    def forward(self, prev_output_tokens: Tensor, **_: Any) -> tuple[Tensor, None]:
        """Return the LSTM state after each word [batch, time, hidden_dim], and no extra outputs."""
        states = self.encoder.states(self.encoder.embed(prev_output_tokens))
        # adaptive_loss sums the losses of all words in this dtype, which overflows in float16.
        return states.type_as(self.encoder.embedding.weight), None


@register_model("recurrent_lm", dataclass=RecurrentConfig)
class RecurrentLanguageModel(FairseqLanguageModel):
    """A left-to-right LSTM language model, for --task language_modeling."""

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RecurrentLanguageModel":
        """Build the model for the task's dictionary."""
        return cls(RecurrentDecoder(cfg, task.source_dictionary))


@dataclass
class LstmClassifierConfig(RecurrentConfig):
    """Options of the LSTM classifier."""

    classifier_mlp_dim: int = option(
        30,
        "hidden dimension of the classification head; Kiyono (2022) uses 30 for sentiment and 128 "
        "for RCV1 categories",
        low=1,
    )
    classifier_lm: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "checkpoint of a recurrent_lm from which to initialize embeddings and LSTM; embeddings are "
        "matched by word",
        usual="random weights",
    )
    classifier_lm_dict: Optional[str] = option(  # noqa: UP045
        None, "dictionary of the language model in --classifier-lm"
    )


@register_model("lstm_classifier", dataclass=LstmClassifierConfig)
class LstmClassifier(TextClassifier):
    """An LSTM text classifier (Kiyono, 2022, equations 3.1 and 3.2).

    p(y|X) = softmax(W ReLU(W_h h_T + b_h) + b), where h_T is the last state of the LSTM.
    """

    def __init__(self, cfg: LstmClassifierConfig, dictionary: Any, classes: int) -> None:
        """Build the model for the words in `dictionary` and for `classes` classes."""
        super().__init__()
        self.encoder = build_recurrent_encoder(cfg, dictionary)
        self.hidden = nn.Linear(cfg.recurrent_hidden_dim, cfg.classifier_mlp_dim)
        self.output = nn.Linear(cfg.classifier_mlp_dim, classes)

    @classmethod
    def build_model(cls, cfg: LstmClassifierConfig, task: Any) -> "LstmClassifier":
        """Build the model. Initialize it from a language model if `classifier_lm` is set."""
        require_classes(task, "lstm_classifier")
        model = cls(cfg, task.source_dictionary, len(task.classes))
        if cfg.classifier_lm is not None:
            own_state = model.encoder.state_dict()
            weights, known = recurrent_encoder_weights(
                Path(cfg.classifier_lm),
                task.source_dictionary.symbols,
                own_state,
                None if cfg.classifier_lm_dict is None else Path(cfg.classifier_lm_dict),
            )
            for name, weight in weights.items():
                own_state[name].copy_(weight)
            logger.info(
                f"Initialized the LSTM, and embeddings of {known} of "
                f"{len(task.source_dictionary)} symbols, from {cfg.classifier_lm}"
            )
        return model

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return word embeddings [batch, time, embed_dim], with dropout in training."""
        return self.encoder.embed(src_tokens)

    def classify(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits z = W ReLU(W_h h_T + b_h) + b [batch, classes]."""
        states = self.encoder.last_state(embedded, src_lengths)
        logits: Tensor = self.output(self.hidden(states).relu())
        return logits
