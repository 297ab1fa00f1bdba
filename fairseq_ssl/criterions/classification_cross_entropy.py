"""Losses for text classification: cross-entropy, adversarial training, imitation (MEIN)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.logging import metrics
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.criterions.criterion import Criterion, CriterionConfig, register_criterion, totals
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.window_classifiers import average_windows
from fairseq_ssl.options import option

GRADIENT_SCALE = 2.0**10
"""Factor that scales a loss before its gradient is computed, so that float16 does not underflow."""
XI = 0.1
"""Norm of the random perturbation from which the virtual adversarial direction is computed."""
Inputs = dict[str, Tensor]


@dataclass
class AdversarialConfig(CriterionConfig):
    """Options of adversarial and virtual adversarial training."""

    adversarial_epsilon: float = option(
        5.0,
        "norm (epsilon) of the perturbation of a text's embeddings (Miyato et al., 2017)",
        above=0,
    )


@register_criterion("classification_cross_entropy", dataclass=CriterionConfig)
class ClassificationCrossEntropy(Criterion):
    """Cross-entropy -log p(y|X), averaged over texts (Kiyono, 2022, equations 3.4 and 3.13)."""

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, the sample size (number of texts) and the logging output."""
        if "target" not in sample:
            raise ConfigurationError(
                "This loss needs class labels, which the batch does not contain. Use --task "
                "semi_supervised_classification with --classification-stage supervised or mixture."
            )
        loss, logits, extra = self.losses(model, sample)
        clean = functional.cross_entropy(logits.detach(), sample["target"], reduction="sum")
        log = {
            "loss": clean,
            "extra_loss": extra.detach(),
            "correct": (logits.argmax(-1) == sample["target"]).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample["nsentences"],
        }
        if not self.training and hasattr(model, "weights"):
            for index, weight in enumerate(model.weights().tolist(), 1):
                log[f"weight_{index}"] = weight * sample["nsentences"]
        return loss, sample["nsentences"], log

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the total loss, the logits in float32, and the adversarial loss, which is 0 here.

        Losses are summed over texts.
        """
        logits = model(**sample["net_input"]).float()
        loss = functional.cross_entropy(logits, sample["target"], reduction="sum")
        return loss, logits, torch.zeros_like(loss)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log losses in bits per text, accuracy and error in percent, and imitator weights."""
        total = totals(logging_outputs)
        size = total("sample_size")
        if not size:
            return
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=4)
        if total("extra_loss"):
            metrics.log_scalar(
                "extra_loss", total("extra_loss") / size / math.log(2), size, round=4
            )
        accuracy = 100 * total("correct") / size
        metrics.log_scalar("accuracy", accuracy, size, round=2)
        metrics.log_scalar("error", 100 - accuracy, size, round=2)
        for key in logging_outputs[0]:
            if key.startswith("weight_"):
                metrics.log_scalar(key, total(key) / size, size, round=4)


class _PerturbedCrossEntropy(ClassificationCrossEntropy):
    """Base class of the adversarial and virtual adversarial losses."""

    def __init__(self, task: Any, adversarial_epsilon: float) -> None:
        super().__init__(task)
        self.epsilon = adversarial_epsilon

    def perturbation(self, gradient: Tensor, inputs: Inputs, length: float) -> Tensor:
        """Return each text's perturbation of norm `length` along the gradient (0 at padding)."""
        positions = torch.arange(gradient.size(1), device=gradient.device)
        is_word = positions < inputs["src_lengths"].unsqueeze(1)
        return scale_to_norm(gradient, length, is_word)


def scale_to_norm(direction: Tensor, length: float, is_word: Tensor) -> Tensor:
    """Return each text's `direction`, detached and scaled to the norm `length`.

    The direction is first divided by its maximum absolute value, so that loss scaling and tiny
    gradients, such as 1e-30, do not change the result. A direction of 0 stays 0.

    Args:
        direction: [batch, time, dim], for example a gradient with respect to embeddings.
        length: Euclidean norm of each text's result.
        is_word: [batch, time], False at padding, where the result is 0.
    """
    dims = (1, 2)
    scaled = direction.detach().float().masked_fill(~is_word.unsqueeze(-1), 0.0)
    maximum = scaled.abs().amax(dims, keepdim=True)
    scaled = scaled / torch.where(maximum > 0, maximum, 1.0)
    norm = scaled.square().sum(dims, keepdim=True).sqrt()
    return (length * scaled / norm.clamp(min=1.0)).type_as(direction)


def _is_half(weights: Iterable[Tensor]) -> bool:
    """Return True if any of the weights is in half precision, as with --fp16 and --bf16."""
    return any(weight.dtype in (torch.float16, torch.bfloat16) for weight in weights)


def _with_gradient(loss: Tensor, embedded: Tensor, model: Any) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient with respect to the embeddings.

    In float32, the same backward pass also computes the gradients of all weights. The returned loss
    stores these gradients for its own backward pass. This is not possible in half precision,
    because the stored gradients would bypass the loss scaling of fairseq's trainer.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if _is_half(weights) or torch.is_autocast_enabled():
        (gradient,) = torch.autograd.grad(GRADIENT_SCALE * loss, embedded, retain_graph=True)
        return loss, gradient
    gradient, *gradients = torch.autograd.grad(
        loss, [embedded, *weights], retain_graph=True, allow_unused=True
    )
    stored: Tensor = _StoredGradients.apply(  # type: ignore[no-untyped-call]
        loss.detach(), gradients, *weights
    )
    return stored, gradient


class _StoredGradients(torch.autograd.Function):
    """The identity function for a loss whose gradients have already been computed."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: list[Tensor | None], *_: Tensor) -> Tensor:
        """Return the loss. `gradients` are its gradients with respect to the remaining inputs."""
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return the stored gradients, multiplied by the gradient with respect to the loss."""
        return (
            None,
            None,
            *(gradient if gradient is None else gradient * outer[0] for gradient in ctx.gradients),
        )


class _ForwardPasses:
    """Forward passes of a model with the same dropout masks.

    With different masks, a divergence would also measure the effect of dropout.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        self.model = model
        self.devices = [device] if device.type == "cuda" else []
        self.states: list[Tensor] | None = None
        layers = [layer for layer in model.modules() if isinstance(layer, nn.RNNBase)]
        self.cudnn = not any(layer.dropout and layer.num_layers > 1 for layer in layers)

    def __call__(self, inputs: Inputs, embedded: Tensor) -> Tensor:
        """Return the logits [batch, classes] in float32."""
        if self.states is None:
            self.states = self._states()
            return self._forward(inputs, embedded)
        with torch.random.fork_rng(self.devices):
            torch.set_rng_state(self.states[0])
            for device in self.devices:
                torch.cuda.set_rng_state(self.states[1], device)
            return self._forward(inputs, embedded)

    def _states(self) -> list[Tensor]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self.devices)]

    def _forward(self, inputs: Inputs, embedded: Tensor) -> Tensor:
        with _cudnn(self.cudnn):  # the dropout of cuDNN's recurrent layers has its own random state
            logits: Tensor = self.model(**inputs, embedded=embedded)
        return logits.float()


@contextmanager
def _cudnn(is_allowed: bool) -> Iterator[None]:
    enabled = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = enabled and is_allowed
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = enabled


@register_criterion("adversarial_cross_entropy", dataclass=AdversarialConfig)
class AdversarialCrossEntropy(_PerturbedCrossEntropy):
    """Cross-entropy on the original texts and on adversarial texts (Miyato et al., 2017)."""

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the total loss, the logits in float32, and the loss on perturbed texts.

        Losses are summed over texts. In evaluation, no texts are perturbed and the last loss is 0.
        """
        if not self.training:
            return super().losses(model, sample)
        inputs, target = model.precompute(sample["net_input"]), sample["target"]
        embedded = model.embed(inputs["src_tokens"])
        forward = _ForwardPasses(model, embedded.device)
        logits = forward(inputs, embedded)
        loss = functional.cross_entropy(logits, target, reduction="sum")
        loss, gradient = _with_gradient(loss, embedded, model)
        perturbed = embedded + self.perturbation(gradient, inputs, self.epsilon)
        perturbed_logits = forward(inputs, perturbed)
        extra = functional.cross_entropy(perturbed_logits, target, reduction="sum")
        return loss + extra, logits, extra


@register_criterion("virtual_adversarial_cross_entropy", dataclass=AdversarialConfig)
class VirtualAdversarialCrossEntropy(_PerturbedCrossEntropy):
    """Cross-entropy plus KL(p(y|e) || p(y|e + r)), which needs no labels (Miyato et al., 2017).

    e are the embeddings. r is the perturbation that increases the divergence most, approximated
    with one power iteration from a random direction. The divergence is computed on texts sampled
    with --classification-unlabeled-per-labeled, or on the labeled texts without this option.
    """

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the total loss, the logits in float32, and the divergence (0 in evaluation).

        The mean divergence per text is multiplied by the number of labeled texts, because the
        trainer divides the loss by this number.
        """
        if not self.training:
            return super().losses(model, sample)
        if _is_half(model.parameters()):  # rounding errors are larger than the effect of xi
            raise ConfigurationError(
                "--criterion virtual_adversarial_cross_entropy needs weights in float32, but the "
                "model has half-precision weights. Use --amp in place of --fp16 or --bf16."
            )
        inputs = model.precompute(sample["net_input"])
        embedded = model.embed(inputs["src_tokens"])
        forward = _ForwardPasses(model, embedded.device)
        logits = forward(inputs, embedded)
        loss = functional.cross_entropy(logits, sample["target"], reduction="sum")
        if "unlabeled" in sample:
            inputs = model.precompute(sample["unlabeled"])
            embedded = model.embed(inputs["src_tokens"])
            forward = _ForwardPasses(model, embedded.device)
            with torch.no_grad():
                log_p = forward(inputs, embedded).log_softmax(-1)
        else:
            log_p = logits.detach().log_softmax(-1)
        divergence = self._divergence(forward, inputs, embedded, log_p)
        extra = sample["nsentences"] / len(log_p) * divergence
        return loss + extra, logits, extra

    def _divergence(
        self, forward: _ForwardPasses, inputs: Inputs, embedded: Tensor, log_p: Tensor
    ) -> Tensor:
        """Return the divergence for the adversarial perturbation, summed over texts.

        Args:
            forward: function that returns the logits for `inputs` and embeddings.
            inputs: keyword arguments of the model, without `embedded`.
            embedded: [batch, time, dim], word embeddings.
            log_p: [batch, classes], log p(y|e), detached.
        """
        random = self.perturbation(torch.randn_like(embedded), inputs, XI).requires_grad_()
        fixed, device = embedded.detach(), embedded.device.type
        is_mixed = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False):  # half precision would round xi away
            clean = log_p
            if is_mixed:
                with torch.no_grad():
                    clean = forward(inputs, fixed).log_softmax(-1)
            divergence = GRADIENT_SCALE * _kl(clean, forward(inputs, fixed + random))
        (gradient,) = torch.autograd.grad(divergence, random)
        perturbed = embedded + self.perturbation(gradient, inputs, self.epsilon)
        return _kl(log_p, forward(inputs, perturbed))


def _kl(log_p: Tensor, logits: Tensor) -> Tensor:
    """Return KL(p || q), summed over texts, from log p and the logits of q [batch, classes]."""
    return functional.kl_div(
        logits.float().log_softmax(-1), log_p, reduction="sum", log_target=True
    )


@register_criterion("imitation_cross_entropy", dataclass=CriterionConfig)
class ImitationCrossEntropy(Criterion):
    """Cross-entropy between a fixed expert p and imitators (Kiyono, 2022, equations 3.11, 3.12).

    The loss is sum_i sum_j -sum_y p(y|X) log p_ij(y), averaged over texts, for imitators i and
    windows j.
    """

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.task = task

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, the sample size (number of texts) and the logging output."""
        if getattr(self.task, "stage", None) != "imitate":
            raise ConfigurationError(
                "--criterion imitation_cross_entropy needs --task semi_supervised_classification "
                "with --classification-stage imitate."
            )
        teacher = sample["teacher"].float() if "teacher" in sample else self.task.teach(sample)
        output = model(**sample["net_input"])
        target = teacher[output.texts]
        entropy = -(target * target.clamp(min=1e-30).log()).sum()
        losses = [-(target * logits.float().log_softmax(-1)).sum() for logits in output.logits]
        loss = sum(losses[1:], losses[0])
        alphas = [average_windows(logits.detach(), output) for logits in output.logits]
        predicted = torch.stack(alphas).sum(0).argmax(-1)
        windows = len(output.texts)
        log = {
            "loss": loss.detach(),
            "agreed": (predicted == teacher.argmax(-1)).sum(),
            "windows": windows,
            "ntokens": windows,
            "nsentences": sample["nsentences"],
            "sample_size": sample["nsentences"],
        }
        for index, window_loss in enumerate(losses, 1):
            log[f"kl_{index}"] = window_loss.detach() - entropy
        return loss, sample["nsentences"], log

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log loss per text and KL per window in bits, and agreement with the expert in percent."""
        total = totals(logging_outputs)
        windows, texts = total("windows"), total("nsentences")
        if not texts:
            return
        metrics.log_scalar("loss", total("loss") / texts / math.log(2), texts, round=4)
        keys = [key for key in logging_outputs[0] if key.startswith("kl_")]
        kls = [total(key) / windows / math.log(2) for key in keys]
        for key, kl in zip(keys, kls, strict=True):
            metrics.log_scalar(key, kl, windows, round=4)
        metrics.log_scalar("kl", sum(kls) / len(kls), windows, round=4)
        metrics.log_scalar("agreement", 100 * total("agreed") / texts, texts, round=2)
