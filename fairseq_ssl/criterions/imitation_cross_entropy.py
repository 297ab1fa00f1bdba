"""Cross-entropy between the expert's distribution and those of imitators (MEIN)."""

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
from fairseq_ssl.modules.window_classifiers import average_windows

TEXT, WINDOW = "text", "window"


@dataclass
class ImitationCrossEntropyConfig(CriterionConfig):
    """Options of the loss."""

    imitator_average: ChoiceEnum([TEXT, WINDOW]) = field(  # type: ignore[valid-type]
        default=TEXT,
        metadata={
            "help": "average the loss over texts, each with the sum over its windows as in "
            "equation 3.11, or over windows (default: text)"
        },
    )


@register_criterion("imitation_cross_entropy", dataclass=ImitationCrossEntropyConfig)
class ImitationCrossEntropy(Criterion):
    """Equations 3.11 and 3.12: sum_i sum_j -sum_y p(y|X) log p_ij(y), with a constant expert."""

    def __init__(self, task: Any, imitator_average: str) -> None:
        super().__init__(task)
        self.task = task
        self.by_window = str(imitator_average) == WINDOW

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """Return the loss, the sample size and the logging output."""
        if getattr(self.task, "stage", None) != "imitate":
            raise ConfigurationError(
                "--criterion imitation_cross_entropy needs --task semi_supervised_classification "
                "with --classification-stage imitate."
            )
        teacher = sample["teacher"].float() if "teacher" in sample else self.task.teach(sample)
        output = model(**sample["net_input"])
        target = teacher[output.texts]
        entropy = -(target * target.clamp(min=1e-30).log()).sum()
        losses = [-(target * one.float().log_softmax(-1)).sum() for one in output.logits]
        loss = sum(losses[1:], losses[0])
        alphas = [average_windows(one.detach(), output) for one in output.logits]
        predicted = torch.stack(alphas).sum(0).argmax(-1)
        windows = len(output.texts)
        size = windows if self.by_window else sample["nsentences"]
        log = {
            "loss": loss.detach(),
            "agreed": (predicted == teacher.argmax(-1)).sum(),
            "windows": windows,
            "ntokens": windows,
            "nsentences": sample["nsentences"],
            "sample_size": size,
        }
        for index, one in enumerate(losses, 1):
            log[f"kl_{index}"] = one.detach() - entropy
        return loss, size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss and KL per window in bits, and the agreement with the expert in percent."""
        total = totals(logging_outputs)
        size, windows, texts = total("sample_size"), total("windows"), total("nsentences")
        if not size:
            return
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=4)
        keys = [key for key in logging_outputs[0] if key.startswith("kl_")]
        kls = [total(key) / windows / math.log(2) for key in keys]
        for key, kl in zip(keys, kls, strict=True):
            metrics.log_scalar(key, kl, windows, round=4)
        metrics.log_scalar("kl", sum(kls) / len(kls), windows, round=4)
        metrics.log_scalar("agreement", 100 * total("agreed") / texts, texts, round=2)
