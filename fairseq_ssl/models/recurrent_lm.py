"""A recurrent language model from which a classifier can start (Dai and Le, 2015; MEIN)."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.models import (
    FairseqDecoder,
    FairseqLanguageModel,
    register_model,
)
from fairseq.modules import AdaptiveSoftmax
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.recurrent_options import RecurrentConfig, recurrent_encoder
from fairseq_ssl.text.specs import parse_integers


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
