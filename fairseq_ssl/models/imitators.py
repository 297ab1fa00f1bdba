"""Imitators of an expert, and the expert trained with its imitators (MEIN)."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_ssl.checkpoints.files import architecture, model_options
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models import imitators
from fairseq_ssl.models.text_classifier import (
    TextClassifier,
    built_expert,
    checked_state,
    require_task,
)
from fairseq_ssl.modules import imitators as modules
from fairseq_ssl.modules.imitators import Imitators, RandomImitators
from fairseq_ssl.text.specs import parse_integers

IMITATOR_FORMS = {"auto": None, "types": True, "convolution": False}


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
    imitator_sparse_gradients: bool = field(
        default=False,
        metadata={
            "help": "update only the embeddings of subwords that a batch has, for --optimizer "
            "lazy_adam: where the vocabulary is large an update is cheaper; in one process, "
            "not with --fp16 (default: all)"
        },
    )


@register_model("imitators", dataclass=ImitatorsConfig)
class ImitatorNetworks(BaseFairseqModel):
    """What is trained in step 2 of algorithm 1."""

    stages = ("imitate",)

    def __init__(self, cfg: ImitatorsConfig, task: Any) -> None:
        super().__init__()
        self.imitators = make_imitators(cfg, task)

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


def make_imitators(cfg: Any, task: Any) -> modules.Imitators:
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
    if cfg.imitator_form not in IMITATOR_FORMS:
        raise ConfigurationError(
            f"--imitator-form is {cfg.imitator_form!r}; expected {', '.join(IMITATOR_FORMS)}."
        )
    found = modules.Imitators(
        len(task.piece_dictionary),
        len(task.classes),
        list(windows),
        task.piece_dictionary.pad(),
        cfg.imitator_embed_dim,
        cfg.imitator_channels,
        cfg.imitator_separate_embeddings,
        bool(getattr(cfg, "imitator_sparse_gradients", False)),
    )
    found.by_types = IMITATOR_FORMS[cfg.imitator_form]
    return found


@dataclass
class ExpertAndImitatorsConfig(FairseqDataclass):
    """What the parts start from."""

    mixture_expert: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={"help": "checkpoint of the expert, trained with labels: it is trained on"},
    )
    mixture_imitators: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "checkpoint of its imitators, or several with : between, which were trained "
            "apart; they stay as they are"
        },
    )
    mixture_random: int = field(
        default=0,
        metadata={
            "help": "in place of imitators, so many random vectors for each text: the control of "
            "the thesis' table 3.3 (default: 0)"
        },
    )
    mixture_random_seed: int = field(default=1, metadata={"help": "of those (default: 1)"})
    mixture_lambda: float = field(
        default=0.0,
        metadata={
            "help": "what each lambda is at first; its imitator weighs sigma(lambda) "
            "(default: 0, a weight of a half)"
        },
    )
    mixture_lambda_rate: float = field(
        default=1.0,
        metadata={
            "help": "how many times faster lambda learns than all else, above 0: with the "
            "thesis' learning rate it hardly moves at 1 (default: 1)"
        },
    )
    mixture_expert_options: str = field(
        default="", metadata={"help": "filled in from the expert's checkpoint"}
    )
    mixture_imitator_options: str = field(
        default="", metadata={"help": "filled in from the imitators' checkpoints"}
    )


@register_model("expert_and_imitators", dataclass=ExpertAndImitatorsConfig)
class ExpertAndImitators(TextClassifier):
    """z'_y = z_y + sum_i sigma(lambda_i) alpha_i[y], equation 3.6."""

    stages = ("mixture",)

    def __init__(
        self,
        expert: TextClassifier,
        groups: list[Imitators | RandomImitators],
        start: float = 0.0,
        rate: float = 1.0,
    ) -> None:
        """Join the parts.

        Args:
            expert: what is trained on
            groups: imitators, which are not
            start: lambda at first
            rate: how much faster than other weights lambda learns
        """
        super().__init__()
        self.expert = expert
        self.groups = nn.ModuleList(groups).requires_grad_(False)
        self.start, self.rate = start, rate
        self.lambda_steps = nn.Parameter(torch.zeros(sum(len(one.windows) for one in groups)))
        """(lambda - start) / rate: Adam's steps are of one size, whatever the gradient's."""

    @classmethod
    def build_model(cls, cfg: ExpertAndImitatorsConfig, task: Any) -> "ExpertAndImitators":
        """Make the model of what the parts' checkpoints, or its own, tell of them."""
        require_task(task, "expert_and_imitators")
        _check(cfg)
        expert = built_expert(cfg.mixture_expert_options, task, str(cfg.mixture_expert))
        groups: list[Imitators | RandomImitators] = []
        for options in json.loads(cfg.mixture_imitator_options or "[]"):
            groups.append(imitators.make_imitators(OmegaConf.create(options), task))
        if cfg.mixture_random:
            pad = task.piece_dictionary.pad()
            seed = cfg.mixture_random_seed
            groups.append(RandomImitators(len(task.classes), cfg.mixture_random, pad, seed))
        model = cls(expert, groups, cfg.mixture_lambda, cfg.mixture_lambda_rate)
        if cfg.mixture_expert is not None:
            expert.load_state_dict(checked_state(Path(cfg.mixture_expert), task)["model"])
        if cfg.mixture_imitators is not None:
            for group, path in zip(groups, cfg.mixture_imitators.split(":"), strict=True):
                state = checked_state(Path(path), task)["model"]
                weights = {name.removeprefix("imitators."): one for name, one in state.items()}
                group.load_state_dict(weights)
        return model

    def lambdas(self) -> Tensor:
        """Return lambda of each imitator [imitators]."""
        return self.start + self.rate * self.lambda_steps.float()

    def weights(self) -> Tensor:
        """Return sigma(lambda) of each imitator [imitators]."""
        return self.lambdas().sigmoid()

    def alphas(self, piece_tokens: Tensor) -> Tensor:
        """Return what the imitators say, equation 3.7 [imitators, batch, classes]."""
        with torch.no_grad():
            found = [group.alphas(piece_tokens) for group in self._groups()]
            return torch.cat(found)

    def _groups(self) -> list[Imitators | RandomImitators]:
        return list(self.groups)  # type: ignore[arg-type]

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return the expert's embeddings of words [batch, time, dim]."""
        return self.expert.embed(src_tokens)

    def scored(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the expert's logits z [batch, classes]."""
        return self.expert.scored(embedded, src_tokens, src_lengths)

    def settled(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return inputs of `forward` with what the imitators say."""
        return {**inputs, "alphas": self.alphas(inputs["piece_tokens"])}

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        embedded: Tensor | None = None,
        piece_tokens: Tensor | None = None,
        alphas: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Return z' [batch, classes].

        Args:
            src_tokens: words [batch, time], padded on the right
            src_lengths: [batch]
            embedded: embeddings to take in place of those of the words
            piece_tokens: subwords of the same texts [batch, time], padded on the right
            alphas: what the imitators say of them, if it is known [imitators, batch, classes]
        """
        if alphas is None:
            assert piece_tokens is not None
            alphas = self.alphas(piece_tokens)
        logits = super().forward(src_tokens, src_lengths, embedded)
        added = torch.einsum("i,ibc->bc", self.weights(), alphas)
        return logits + added.type_as(logits)

    def max_positions(self) -> Any:
        """As long as the expert takes them."""
        return self.expert.max_positions()


def imitator_options(checkpoints: str, task: Any) -> str:
    """Return the options of the imitators in checkpoints with : between, as JSON."""
    found = []
    for path in map(Path, checkpoints.split(":")):
        state = checked_state(path, task)
        if not architecture(state).startswith("imitators"):
            raise ConfigurationError(
                f"{path} holds a {architecture(state)}; expected imitators, trained with "
                "--classification-stage imitate."
            )
        options = model_options(state)
        found.append({name: one for name, one in options.items() if name.startswith("imitator_")})
    return json.dumps(found)


def _check(cfg: Any) -> None:
    if not cfg.mixture_expert_options:
        raise ConfigurationError(
            "--arch expert_and_imitators needs --mixture-expert, the checkpoint of an expert."
        )
    if bool(cfg.mixture_random) == bool(cfg.mixture_imitator_options):
        raise ConfigurationError(
            "--arch expert_and_imitators needs either --mixture-imitators, or for the control "
            "--mixture-random."
        )
    if cfg.mixture_random < 0 or cfg.mixture_lambda_rate <= 0:
        raise ConfigurationError(
            f"--mixture-random is {cfg.mixture_random} and --mixture-lambda-rate "
            f"{cfg.mixture_lambda_rate}; expected 0 or more, and above 0."
        )
