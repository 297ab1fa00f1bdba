"""The options of a recurrent encoder, which a classifier and its language model have alike."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass

from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.modules.recurrent_encoder import RecurrentEncoder, RecurrentSizes, flush_denormals


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
    recurrent_normalise_embeddings: bool = field(
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
    counts = list(dictionary.count) if cfg.recurrent_normalise_embeddings else None
    return RecurrentEncoder(sizes, dictionary.pad(), counts)
