"""Imitators, to be trained on what an expert says of unlabelled texts (MEIN)."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models.classification_task import require_task
from fairseq_ssl.modules import imitators as modules
from fairseq_ssl.text.specs import parse_integers

FORMS = {"auto": None, "types": True, "convolution": False}


@dataclass
class ImitatorsConfig(FairseqDataclass):
    """Sizes as in table 3.2 of the thesis."""

    imitator_windows: str = field(
        default="1,2,3,4",
        metadata={
            "help": "c of each imitator, with commas between: it sees 2c + 1 subwords; each 1 or "
            "more (default: 1,2,3,4)"
        },
    )
    imitator_embed_dim: int = field(
        default=512, metadata={"help": "size of subword embeddings (default: 512)"}
    )
    imitator_channels: int = field(
        default=512, metadata={"help": "channels of each convolution, N (default: 512)"}
    )
    imitator_separate_embeddings: bool = field(
        default=False,
        metadata={"help": "give each imitator embeddings of its own (default: one table for all)"},
    )
    imitator_form: str = field(
        default="auto",
        metadata={
            "help": "how to compute, with equal results: types: project each distinct subword of a "
            "batch once; convolution: each place; auto: what is faster (default: auto)"
        },
    )
    imitator_touched_rows: bool = field(
        default=False,
        metadata={
            "help": "update only the embeddings of subwords that a batch has, for --optimizer "
            "touched_adam: where the vocabulary is large an update is cheaper; in one process, "
            "not with --fp16 (default: all)"
        },
    )


@register_model("imitators", dataclass=ImitatorsConfig)
class ImitatorNetworks(BaseFairseqModel):
    """What is trained in step 2 of algorithm 1."""

    stages = ("imitate",)

    def __init__(self, cfg: ImitatorsConfig, task: Any) -> None:
        super().__init__()
        self.imitators = made(cfg, task)

    @classmethod
    def build_model(cls, cfg: ImitatorsConfig, task: Any) -> "ImitatorNetworks":
        """Make the model for a task of classification."""
        require_task(task, "imitators")
        return cls(cfg, task)

    def forward(self, piece_tokens: Tensor, **_: Any) -> modules.WindowLogits:
        """Return the logits of all windows of subwords [batch, time]."""
        found: modules.WindowLogits = self.imitators(piece_tokens)
        return found

    def max_positions(self) -> None:
        """A text may be of any length."""


def made(cfg: Any, task: Any) -> modules.Imitators:
    """Make imitators as the options say; refuse what is out of range."""
    windows = parse_integers(str(cfg.imitator_windows), least=1)
    if windows is None:
        raise ConfigurationError(
            f"--imitator-windows is {cfg.imitator_windows!r}; expected numbers of 1 or more with "
            "commas between, as 1,2,3,4."
        )
    for name in ("embed_dim", "channels"):
        if getattr(cfg, f"imitator_{name}") < 1:
            raise ConfigurationError(
                f"{flag(f'imitator_{name}')} is {getattr(cfg, f'imitator_{name}')}; "
                "expected 1 or more."
            )
    if cfg.imitator_form not in FORMS:
        raise ConfigurationError(
            f"--imitator-form is {cfg.imitator_form!r}; expected {', '.join(FORMS)}."
        )
    found = modules.Imitators(
        len(task.piece_dictionary),
        len(task.classes),
        list(windows),
        task.piece_dictionary.pad(),
        cfg.imitator_embed_dim,
        cfg.imitator_channels,
        cfg.imitator_separate_embeddings,
        bool(getattr(cfg, "imitator_touched_rows", False)),
    )
    found.by_types = FORMS[cfg.imitator_form]
    return found
