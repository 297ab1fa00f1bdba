"""Disturbances of embeddings, of a given length (Miyato et al., 2017)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.criterions.criterion import Criterion, CriterionConfig, totals
from fairseq_ssl.errors import ConfigurationError


def scale_to_norm(
    direction: Tensor, length: float, is_word: Tensor, by_token: bool = False
) -> Tensor:
    """Return what has this direction and this length, without a gradient [batch, time, dim].

    Nothing depends on how long `direction` is: it is divided by its largest number first, so
    that a gradient of 1e-30, or one scaled for half precision, gives the same. Where it is 0
    throughout, so is the disturbance.

    Args:
        direction: [batch, time, dim]
        length: in the Euclidean norm, of all words of a text together
        is_word: [batch, time]: places that are no padding, where the others stay 0
        by_token: give each word this length, in place of the text
    """
    dims = (2,) if by_token else (1, 2)
    found = direction.detach().float().masked_fill(~is_word.unsqueeze(-1), 0.0)
    largest = found.abs().amax(dims, keepdim=True)
    found = found / torch.where(largest > 0, largest, 1.0)
    norm = found.square().sum(dims, keepdim=True).sqrt()
    return (length * found / norm.clamp(min=1.0)).type_as(direction)


SENTENCE, TOKEN = "sentence", "token"
Inputs = dict[str, Tensor]


@dataclass
class ClassificationCrossEntropyConfig(CriterionConfig):
    """It has no options."""


@dataclass
class AdversarialConfig(CriterionConfig):
    """The options of both kinds of adversarial training."""

    adversarial_epsilon: float = field(
        default=5.0,
        metadata={"help": "length of the disturbance of embeddings, above 0 (default: 5)"},
    )
    adversarial_weight: float = field(
        default=1.0,
        metadata={"help": "weight of the loss of disturbed texts, 0 or more (default: 1)"},
    )
    adversarial_norm: ChoiceEnum([SENTENCE, TOKEN]) = field(  # type: ignore[valid-type]
        default=SENTENCE,
        metadata={
            "help": "what has that length: the disturbance of a whole text, or of each word "
            "(default: sentence)"
        },
    )


@dataclass
class VirtualAdversarialConfig(AdversarialConfig):
    """The options of virtual adversarial training."""

    adversarial_xi: float = field(
        default=0.1,
        metadata={
            "help": "length of the random disturbance at which the worst direction is looked for, "
            "above 0 (default: 0.1)"
        },
    )


@register_criterion("classification_cross_entropy", dataclass=ClassificationCrossEntropyConfig)
class ClassificationCrossEntropy(Criterion):
    """-log p(y|X), equations 3.4 and 3.13; its mean is over texts."""

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, what to divide it by, and what is to be logged."""
        if "target" not in sample:
            raise ConfigurationError(
                "This criterion needs labels. Use it with --task semi_supervised_classification, "
                "and --classification-stage supervised or mixture."
            )
        loss, logits, extra = self.losses(model, sample)
        clean = functional.cross_entropy(logits.detach(), sample["target"], reduction="sum")
        log = {
            "loss": clean,
            "extra_loss": extra.detach(),
            "right": (logits.argmax(-1) == sample["target"]).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample["nsentences"],
        }
        if not self.training and hasattr(model, "weights"):
            for number, weight in enumerate(model.weights().tolist(), 1):
                log[f"weight_{number}"] = weight * sample["nsentences"]
        return loss, sample["nsentences"], log

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return all loss, the logits of the texts in float32, and what is added to the loss."""
        logits = model(**sample["net_input"]).float()
        loss = functional.cross_entropy(logits, sample["target"], reduction="sum")
        return loss, logits, torch.zeros_like(loss)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss in bits, what is right and wrong in percent, and the imitators' weights."""
        total = totals(logging_outputs)
        size = total("sample_size")
        if not size:
            return
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=4)
        if total("extra_loss"):
            metrics.log_scalar(
                "extra_loss", total("extra_loss") / size / math.log(2), size, round=4
            )
        accuracy = 100 * total("right") / size
        metrics.log_scalar("accuracy", accuracy, size, round=2)
        metrics.log_scalar("error", 100 - accuracy, size, round=2)
        for key in logging_outputs[0]:
            if key.startswith("weight_"):
                metrics.log_scalar(key, total(key) / size, size, round=4)


class _Disturbing(ClassificationCrossEntropy):
    """What both kinds of adversarial training share."""

    def __init__(
        self,
        task: Any,
        adversarial_epsilon: float,
        adversarial_weight: float,
        adversarial_norm: str,
    ) -> None:
        super().__init__(task)
        if adversarial_epsilon <= 0 or adversarial_weight < 0:
            raise ConfigurationError(
                f"--adversarial-epsilon is {adversarial_epsilon} and --adversarial-weight "
                f"{adversarial_weight}; expected above 0, and 0 or more."
            )
        self.epsilon = adversarial_epsilon
        self.weight = adversarial_weight
        self.by_token = str(adversarial_norm) == TOKEN

    def longest(self, gradient: Tensor, inputs: Inputs, length: float) -> Tensor:
        """Return a disturbance of this length in the gradient's direction."""
        words = torch.arange(gradient.size(1), device=gradient.device)
        is_word = words < inputs["src_lengths"].unsqueeze(1)
        return scale_to_norm(gradient, length, is_word, self.by_token)


def _with_gradient(loss: Tensor, embedded: Tensor, model: Any) -> tuple[Tensor, Tensor]:
    """Return a loss, ready to be added to others, and its gradient at the embeddings.

    The same pass finds the gradient at all weights, which the loss keeps: its own pass is then
    over. In half precision gradients only last when the trainer scales the loss.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    half = {torch.float16, torch.bfloat16} & {weight.dtype for weight in weights}
    if half or torch.is_autocast_enabled():
        (gradient,) = torch.autograd.grad(loss, embedded, retain_graph=True)
        return loss, gradient
    gradient, *known = torch.autograd.grad(
        loss, [embedded, *weights], retain_graph=True, allow_unused=True
    )
    ready: Tensor = _Known.apply(loss.detach(), known, *weights)  # type: ignore[no-untyped-call]
    return ready, gradient


class _Known(torch.autograd.Function):
    """A loss whose gradient is known."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, known: list[Tensor | None], *_: Tensor) -> Tensor:
        """Return the loss; `known` is its gradient at each of the weights that follow."""
        ctx.known = known
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return what is known, times the outer gradient."""
        return None, None, *(each if each is None else each * outer[0] for each in ctx.known)


@register_criterion("adversarial_cross_entropy", dataclass=AdversarialConfig)
class AdversarialCrossEntropy(_Disturbing):
    """Adds the loss of embeddings that are moved to where it grows most (Miyato et al., 2017)."""

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of the texts as they are plus that of disturbed ones."""
        if not self.training:
            return super().losses(model, sample)
        inputs, target = model.precompute(sample["net_input"]), sample["target"]
        embedded = model.embed(inputs["src_tokens"])
        logits = model(**inputs, embedded=embedded).float()
        loss = functional.cross_entropy(logits, target, reduction="sum")
        loss, gradient = _with_gradient(loss, embedded, model)
        moved = embedded + self.longest(gradient, inputs, self.epsilon)
        disturbed = model(**inputs, embedded=moved).float()
        extra = self.weight * functional.cross_entropy(disturbed, target, reduction="sum")
        return loss + extra, logits, extra


@register_criterion("virtual_adversarial_cross_entropy", dataclass=VirtualAdversarialConfig)
class VirtualAdversarialCrossEntropy(_Disturbing):
    """Adds KL(p(y|e) || p(y|e + r)) of texts that need no label (Miyato et al., 2017).

    r is the direction in which the divergence grows most, found in one step from a random one.
    The texts are those of --unlabeled-per-labeled; without, the labeled ones.
    """

    def __init__(
        self,
        task: Any,
        adversarial_epsilon: float,
        adversarial_weight: float,
        adversarial_norm: str,
        adversarial_xi: float,
    ) -> None:
        super().__init__(task, adversarial_epsilon, adversarial_weight, adversarial_norm)
        if adversarial_xi <= 0:
            raise ConfigurationError(f"--adversarial-xi is {adversarial_xi}; expected above 0.")
        self.xi = adversarial_xi

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of the labels plus the divergence, its mean taken for each label."""
        if not self.training:
            return super().losses(model, sample)
        inputs = model.precompute(sample["net_input"])
        embedded = model.embed(inputs["src_tokens"])
        logits = model(**inputs, embedded=embedded).float()
        loss = functional.cross_entropy(logits, sample["target"], reduction="sum")
        if "unlabeled" in sample:
            inputs = model.precompute(sample["unlabeled"])
            embedded = model.embed(inputs["src_tokens"])
            with torch.no_grad():
                believed = model(**inputs, embedded=embedded).float().log_softmax(-1)
        else:
            believed = logits.detach().log_softmax(-1)
        divergence = self._divergence(model, inputs, embedded, believed)
        extra = self.weight * sample["nsentences"] / len(believed) * divergence
        return loss + extra, logits, extra

    def _divergence(self, model: Any, inputs: Inputs, embedded: Tensor, believed: Tensor) -> Tensor:
        """Return the divergence at the worst disturbance, summed over texts.

        Args:
            model: to be trained
            inputs: of the texts
            embedded: their embeddings [batch, time, dim]
            believed: log p(y|e) [batch, classes], taken as given
        """
        tried = self.longest(torch.randn_like(embedded), inputs, self.xi).requires_grad_()
        (gradient,) = torch.autograd.grad(
            _kl(believed, model(**inputs, embedded=embedded.detach() + tried)), tried
        )
        moved = embedded + self.longest(gradient, inputs, self.epsilon)
        return _kl(believed, model(**inputs, embedded=moved))


def _kl(believed: Tensor, logits: Tensor) -> Tensor:
    """Return KL(p || q) summed over texts, of log p and the logits of q [batch, classes]."""
    return functional.kl_div(
        logits.float().log_softmax(-1), believed, reduction="sum", log_target=True
    )
