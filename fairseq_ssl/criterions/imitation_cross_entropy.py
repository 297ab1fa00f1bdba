"""What imitators lose by not saying of each window what the expert says of the text (MEIN)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from fairseq_ssl.criterions.criterion import Criterion, CriterionConfig, totals
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.imitators import average_windows

TEXT, WINDOW = "text", "window"


@dataclass
class ImitationCrossEntropyConfig(CriterionConfig):
    """The options of the loss."""

    imitator_average: ChoiceEnum([TEXT, WINDOW]) = field(  # type: ignore[valid-type]
        default=TEXT,
        metadata={
            "help": "what the loss is a mean over: texts, with the sum over the windows of each, "
            "as in equation 3.11, so that longer ones weigh more; or windows (default: text)"
        },
    )


@register_criterion("imitation_cross_entropy", dataclass=ImitationCrossEntropyConfig)
class ImitationCrossEntropy(Criterion):
    """Equations 3.11 and 3.12: sum_i sum_j -sum_y p(y|X) log p_ij(y); the expert is a constant."""

    def __init__(self, task: Any, imitator_average: str) -> None:
        super().__init__(task)
        self.task = task
        self.by_window = str(imitator_average) == WINDOW

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """Return the loss, what to divide it by, and what is to be logged."""
        if getattr(self.task, "stage", None) != "imitate":
            raise ConfigurationError(
                "--criterion imitation_cross_entropy is for --task semi_supervised_classification "
                "and --classification-stage imitate."
            )
        teacher = sample["teacher"].float() if "teacher" in sample else self.task.teach(sample)
        found = model(**sample["net_input"])
        wanted = teacher[found.texts]
        entropy = -(wanted * wanted.clamp(min=1e-30).log()).sum()
        losses = [-(wanted * one.float().log_softmax(-1)).sum() for one in found.logits]
        loss = sum(losses[1:], losses[0])
        said = torch.stack([average_windows(one.detach(), found) for one in found.logits]).sum(0)
        windows = len(found.texts)
        size = windows if self.by_window else sample["nsentences"]
        log = {
            "loss": loss.detach(),
            "agreed": (said.argmax(-1) == teacher.argmax(-1)).sum(),
            "windows": windows,
            "ntokens": windows,
            "nsentences": sample["nsentences"],
            "sample_size": size,
        }
        for number, one in enumerate(losses, 1):
            log[f"kl_{number}"] = one.detach() - entropy
        return loss, size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss, KL for a window of each imitator, and how often they agree, in percent."""
        total = totals(logging_outputs)
        size, windows, texts = total("sample_size"), total("windows"), total("nsentences")
        if not size:
            return
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=4)
        numbers = [key for key in logging_outputs[0] if key.startswith("kl_")]
        kls = [total(key) / windows / math.log(2) for key in numbers]
        for key, kl in zip(numbers, kls, strict=True):
            metrics.log_scalar(key, kl, windows, round=4)
        metrics.log_scalar("kl", sum(kls) / len(kls), windows, round=4)
        metrics.log_scalar("agreement", 100 * total("agreed") / texts, texts, round=2)
