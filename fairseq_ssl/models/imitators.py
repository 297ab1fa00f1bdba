"""Imitators, which predict an expert's labels, and mixtures of expert and imitators (MEIN)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_ssl.checkpoints.files import architecture, model_options, weights_below
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.common import StoredConfig, register_model
from fairseq_ssl.models.text_classifier import (
    TextClassifier,
    build_expert,
    read_checkpoint_of_task,
    require_classes,
)
from fairseq_ssl.modules.window_classifiers import Imitators, RandomImitators, WindowLogits
from fairseq_ssl.options import check_fairseq, option
from fairseq_ssl.text.specs import parse_integers


@dataclass
class ImitatorsConfig(FairseqDataclass):
    """Options of imitators. The defaults are from Kiyono (2022), table 3.2."""

    imitator_windows: str = option(
        "1,2,3,4",
        "comma-separated window sizes (c) of the imitators, each 1 or more; an imitator with size "
        "c reads windows of 2c + 1 subwords",
    )
    imitator_embed_dim: int = option(512, "subword embedding dimension", low=1)
    imitator_channels: int = option(512, "number of convolution channels", low=1)
    imitator_sparse_gradients: bool = option(
        False,
        "compute sparse embedding gradients, which is faster for large vocabularies; requires "
        "--optimizer lazy_adam and a single process without --fp16 or --bf16",
    )


@register_model("imitators", dataclass=ImitatorsConfig)
class ImitatorNetworks(BaseFairseqModel):
    """fairseq model of imitators, trained to imitate an expert (Kiyono, 2022, algorithm 1)."""

    stages = ("imitate",)

    def __init__(self, cfg: ImitatorsConfig, task: Any) -> None:
        super().__init__()
        self.imitators = build_imitators(cfg, task)
        self.has_sparse_gradients = bool(cfg.imitator_sparse_gradients)

    @classmethod
    def build_model(cls, cfg: ImitatorsConfig, task: Any) -> "ImitatorNetworks":
        """Build the model for a classification task."""
        require_classes(task, "imitators")
        return cls(cfg, task)

    def forward(self, piece_tokens: Tensor, **_: Any) -> WindowLogits:
        """Return the logits for all windows of subwords in `piece_tokens` [batch, time]."""
        logits: WindowLogits = self.imitators(piece_tokens)
        return logits


def build_imitators(cfg: Any, task: Any) -> Imitators:
    """Build imitators for a task's subwords and classes."""
    windows = parse_integers(str(cfg.imitator_windows), least=1)
    if windows is None:
        raise ConfigurationError(
            f"--imitator-windows is {cfg.imitator_windows!r}. Expected comma-separated integers of "
            "1 or more, such as 1,2,3,4."
        )
    return Imitators(
        len(task.piece_dictionary),
        len(task.classes),
        list(windows),
        task.piece_dictionary.pad(),
        cfg.imitator_embed_dim,
        cfg.imitator_channels,
        bool(getattr(cfg, "imitator_sparse_gradients", False)),
    )


@dataclass
class ExpertAndImitatorsConfig(StoredConfig):
    """Options of a mixture of an expert and imitators."""

    mixture_expert: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None, "checkpoint of the supervised expert to fine-tune (required)"
    )
    mixture_imitators: Optional[str] = option(  # noqa: UP045
        None,
        "checkpoints of the imitators, separated by colons; their weights are frozen",
        usual="none",
    )
    mixture_random: int = option(
        0,
        "number of random vectors per text that replace the imitators, for the control "
        "experiment (Kiyono, 2022, table 3.3)",
        low=0,
    )
    mixture_lambda: float = option(
        0.0,
        "initial lambda of each imitator, whose weight is sigmoid(lambda)",
        usual="0, a weight of 0.5",
    )
    mixture_lambda_rate: float = option(
        1.0,
        "learning rate of lambda, as a multiple of the other parameters' learning rate; with 1 "
        "and the learning rate in Kiyono (2022), lambda hardly changes",
        above=0,
    )
    mixture_expert_options: str = ""
    """The expert's options as a JSON string, from its checkpoint."""
    mixture_imitator_options: str = ""
    """The imitators' options as a JSON string, from their checkpoints."""


@register_model("expert_and_imitators", dataclass=ExpertAndImitatorsConfig)
class ExpertAndImitators(TextClassifier):
    """An expert combined with frozen imitators (Kiyono, 2022, equation 3.6).

    z'_y = z_y + sum_i sigmoid(lambda_i) alpha_i[y]

    z are the expert's logits, and alpha_i are the log-probabilities of imitator i.
    """

    stages = ("mixture",)

    def __init__(
        self,
        expert: TextClassifier,
        groups: list[Imitators | RandomImitators],
        start: float = 0.0,
        rate: float = 1.0,
    ) -> None:
        """Combine an expert with imitators.

        Args:
            expert: the classifier to fine-tune.
            groups: imitators to freeze, one module per checkpoint, or one `RandomImitators`.
            start: initial value of lambda.
            rate: learning rate of lambda, as a multiple of the other parameters' learning rate.
        """
        super().__init__()
        self.expert = expert
        self.groups = nn.ModuleList(groups).requires_grad_(False)
        self.start, self.rate = start, rate
        self.lambda_steps = nn.Parameter(torch.zeros(sum(len(group.windows) for group in groups)))
        """[imitators], (lambda - start) / rate.

        Training this parameter scales the learning rate of lambda by `rate`. With Adam, scaling
        the gradient would have no effect.
        """

    @classmethod
    def build_model(cls, cfg: ExpertAndImitatorsConfig, task: Any) -> "ExpertAndImitators":
        """Build the model. Load the expert and the imitators if `cfg` names their checkpoints."""
        require_classes(task, "expert_and_imitators")
        _check(cfg)
        expert = build_expert(cfg.mixture_expert_options, task, str(cfg.mixture_expert))
        groups: list[Imitators | RandomImitators] = []
        for options in map(OmegaConf.create, json.loads(cfg.mixture_imitator_options or "[]")):
            check_fairseq(ImitatorsConfig, options)
            groups.append(build_imitators(options, task))
        if cfg.mixture_random:
            pad = task.piece_dictionary.pad()
            groups.append(RandomImitators(len(task.classes), cfg.mixture_random, pad))
        model = cls(expert, groups, cfg.mixture_lambda, cfg.mixture_lambda_rate)
        if cfg.mixture_expert is not None:
            expert.load_state_dict(read_checkpoint_of_task(Path(cfg.mixture_expert), task)["model"])
        if cfg.mixture_imitators is not None:
            for group, path in zip(groups, cfg.mixture_imitators.split(":"), strict=True):
                state = read_checkpoint_of_task(Path(path), task)
                group.load_state_dict(weights_below(state, "imitators."))
        return model

    def lambdas(self) -> Tensor:
        """Return lambda_i of each imitator i [imitators], the weight before the sigmoid."""
        return self.start + self.rate * self.lambda_steps.float()

    def weights(self) -> Tensor:
        """Return the weight sigmoid(lambda) of each imitator [imitators]."""
        return self.lambdas().sigmoid()

    def alphas(self, piece_tokens: Tensor) -> Tensor:
        """Return the imitators' log-probabilities [imitators, batch, classes] (equation 3.7)."""
        with torch.no_grad():
            return torch.cat([group.alphas(piece_tokens) for group in self._groups()])

    def _groups(self) -> list[Imitators | RandomImitators]:
        return list(self.groups)  # type: ignore[arg-type]

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return the expert's word embeddings [batch, time, dim]."""
        return self.expert.embed(src_tokens)

    def classify(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the expert's logits z [batch, classes]."""
        return self.expert.classify(embedded, src_tokens, src_lengths)

    def precompute(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `inputs` with the imitators' log-probabilities added as `alphas`."""
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
        """Return the logits z' of the mixture [batch, classes].

        Args:
            src_tokens: [batch, time], word ids, padded on the right.
            src_lengths: [batch], numbers of words including </s>.
            embedded: [batch, time, dim], embeddings to use instead of embedding `src_tokens`.
            piece_tokens: [batch, time], subword ids of the same texts, padded on the right. Not
                needed with `alphas`.
            alphas: [imitators, batch, classes], the output of `precompute`.
        """
        if alphas is None:
            assert piece_tokens is not None
            alphas = self.alphas(piece_tokens)
        logits = super().forward(src_tokens, src_lengths, embedded)
        mixture = torch.einsum("i,ibc->bc", self.weights(), alphas)
        return logits + mixture.type_as(logits)

    def max_positions(self) -> Any:
        """Return (maximum number of words, None for subwords), or None if there is no limit."""
        words = self.expert.max_positions()
        return None if words is None else (words, None)


def imitator_options(checkpoints: str, task: Any) -> str:
    """Return the imitator options of each checkpoint in a colon-separated list, as a JSON list."""
    groups = []
    for path in map(Path, checkpoints.split(":")):
        state = read_checkpoint_of_task(path, task)
        if not architecture(state).startswith("imitators"):
            raise ConfigurationError(
                f"{path} has the architecture {architecture(state)}. Expected a checkpoint of "
                "imitators, trained with --classification-stage imitate."
            )
        options = model_options(state)
        groups.append(
            {name: value for name, value in options.items() if name.startswith("imitator_")}
        )
    return json.dumps(groups)


def _check(cfg: Any) -> None:
    if not cfg.mixture_expert_options:
        raise ConfigurationError(
            "--arch expert_and_imitators needs an expert. Set --mixture-expert to its checkpoint."
        )
    if bool(cfg.mixture_random) == bool(cfg.mixture_imitator_options):
        raise ConfigurationError(
            "--mixture-imitators and --mixture-random (for the control experiment) are both set, "
            "or both missing. Set one of the two."
        )
