"""Semi-supervised translation loss: cross-entropy in both directions plus reconstruction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import metrics
from torch import Tensor

from fairseq_ssl.criterions.criterion import Criterion, CriterionConfig, register_criterion, totals
from fairseq_ssl.data.bitext_with_mono import BACKWARD, reconstruction_batches
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.reconstruction import (
    DirectionBatch,
    group_candidates,
    log_likelihood,
    reconstruction_loss,
)
from fairseq_ssl.options import option

SOURCE, TARGET = "source_text", "target_text"
"""Names of the monolingual texts in the source and in the target language."""


@dataclass
class ReconstructionLossConfig(CriterionConfig):
    """Options of the reconstruction loss."""

    reconstruction_weight: str = option(
        "0.1",
        "weight of the reconstruction loss (lambda), 0 or more, or a schedule UPDATE:WEIGHT,...; "
        "for example, with 0:0,1000:0,2000:0.2 the weight is 0 up to update 1000 and then "
        "increases linearly to 0.2 at update 2000",
    )
    reconstruction_start_update: int = option(0, "first update with a reconstruction loss", low=0)
    label_smoothing: float = option(
        0.0, "epsilon for label smoothing of parallel sentences", low=0, below=1
    )


class WeightSchedule:
    """Loss weight that is constant or a piecewise linear function of the number of updates."""

    def __init__(self, spec: str, start: int = 0) -> None:
        """Parse the schedule.

        Args:
            spec: a weight, such as 0.2, or updates with weights, such as 0:0,1000:0,2000:0.2.
            start: update before which the weight is 0.
        """
        self.start = start
        self.points = _parse_points(str(spec))

    def at(self, update: int) -> float:
        """Return the weight at update number `update`, by linear interpolation."""
        if update < self.start:
            return 0.0
        updates, weights = zip(*self.points, strict=True)
        return float(np.interp(update, updates, weights))


def _parse_points(spec: str) -> list[tuple[int, float]]:
    parts = spec.split(",")
    words = [part.split(":") for part in parts] if ":" in spec else [["0", spec]]
    try:
        points = [(int(update), float(weight)) for update, weight in words]
    except ValueError:
        points = []
    updates = [update for update, _ in points]
    is_valid = all(0 <= weight < float("inf") for _, weight in points)
    if not points or updates != sorted(set(updates)) or not is_valid:
        raise ConfigurationError(
            f"--reconstruction-weight is {spec!r}. Expected a weight of 0 or more, such as 0.2, or "
            "weights at increasing updates, such as 0:0,1000:0,2000:0.2."
        )
    return points


@register_criterion("reconstruction_loss", dataclass=ReconstructionLossConfig)
class ReconstructionLoss(Criterion):
    """Cross-entropy in both directions plus the reconstruction loss of monolingual text.

    The loss of a pair (x, y) with a monolingual sentence x' and its candidate translations y_k is
    -(log P(y|x) + log P(x|y) + lambda log sum_k P(y_k|x') P(x'|y_k)). It is averaged over pairs,
    even without --sentence-avg, so that lambda has the same effect in each batch.
    """

    def __init__(
        self,
        task: Any,
        reconstruction_weight: str,
        reconstruction_start_update: int,
        label_smoothing: float,
    ) -> None:
        super().__init__(task)
        if getattr(task, "directions", None) is None:
            raise ConfigurationError(
                "--criterion reconstruction_loss needs a model for each direction. Use --task "
                "reconstruction_translation."
            )
        self.schedule = WeightSchedule(reconstruction_weight, reconstruction_start_update)
        self.smoothing = label_smoothing

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, the sample size (number of pairs) and the logging output.

        `sample` is a batch from `BitextWithMono`. The task adds the key `candidates`, which
        contains the candidates and the loss weight for each monolingual text.
        """
        candidates = sample.get("candidates", {})
        batches = self._pair_batches(sample)
        text_batches = {
            name: self._text_batches(sample[name], name, text_candidates)
            for name, text_candidates in candidates.items()
        }
        for batch_pair in text_batches.values():
            batches.extend(batch_pair)
        scores = iter(model(batches))
        sentences = sample["nsentences"]
        log: dict[str, Any] = {"nsentences": sentences, "sample_size": sentences, "ntokens": 0}
        loss = torch.zeros((), device=sample["target"].device)
        # All processes must log the same keys. A process without data gets a batch without text.
        for name in (SOURCE, TARGET):
            log |= {f"{name}_loss": torch.zeros_like(loss), f"{name}_sentences": 0}
        for name, batch in zip(("forward", BACKWARD), batches, strict=False):
            smoothed, exact = label_smoothed_nll_loss(
                next(scores), batch.target, self.smoothing, self.padding_idx
            )
            loss = loss + smoothed
            words = int(batch.target.ne(self.padding_idx).sum())
            log |= {f"{name}_loss": exact.detach(), f"{name}_tokens": words}
            log["ntokens"] += words
        for name, batch_pair in text_batches.items():
            likelihoods = [
                log_likelihood(next(scores), batch.target, self.padding_idx) for batch in batch_pair
            ]
            losses = self._text_losses(likelihoods, candidates[name])
            # Use the mean, because the numbers of pairs and monolingual sentences may differ.
            loss = loss + candidates[name]["weight"] * sentences * losses.mean()
            log |= {f"{name}_loss": losses.detach().sum(), f"{name}_sentences": len(losses)}
        return loss, sentences, {**log, "loss": loss.detach()}

    def _pair_batches(self, sample: dict[str, Any]) -> list[DirectionBatch]:
        """Return the parallel sentences as a forward and a backward batch."""
        forward, backward = self.task.directions
        batches = []
        for direction, pairs in ((forward, sample), (backward, sample[BACKWARD])):
            sides = pairs["net_input"]
            batches.append(
                DirectionBatch(
                    direction,
                    sides["src_tokens"],
                    sides["src_lengths"],
                    sides["prev_output_tokens"],
                    pairs["target"],
                )
            )
        return batches

    def _text_batches(
        self, text: dict[str, Any], name: str, candidates: dict[str, Any]
    ) -> tuple[DirectionBatch, DirectionBatch]:
        """Return the forward and the backward batch of a monolingual text."""
        directions = tuple(self.task.directions)
        return reconstruction_batches(
            text,
            candidates,
            directions if name == SOURCE else directions[::-1],
            self.padding_idx,
            self.task.cfg.left_pad_source,
        )

    def _text_losses(self, likelihoods: list[Tensor], candidates: dict[str, Any]) -> Tensor:
        """Return the loss of each sentence [batch], given its candidates' log-likelihoods."""
        shape = candidates["count"], candidates["beam"]
        forward, backward = (
            group_candidates(scores, candidates["slots"], *shape) for scores in likelihoods
        )
        return reconstruction_loss(forward, backward)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log losses in bits per pair, per word in each direction, and per monolingual sentence."""
        total = totals(logging_outputs)
        size = total("sample_size")
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=3)
        divisors = {"forward": "tokens", BACKWARD: "tokens", SOURCE: "sentences"}
        for name, unit in {**divisors, TARGET: "sentences"}.items():
            count = total(f"{name}_{unit}")
            if count:
                mean = total(f"{name}_loss") / count / math.log(2)
                metrics.log_scalar(f"{name}_loss", mean, count, round=3)
