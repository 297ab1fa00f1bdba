"""A weight that may change while a model is trained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from fairseq_ssl.criterions.criterion import Criterion, CriterionConfig, totals
from fairseq_ssl.data.bitext_with_mono import BACKWARD, reconstruction_batches
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.reconstruction import (
    TOP1,
    WEIGHTINGS,
    DirectionBatch,
    group_candidates,
    log_likelihood,
    reconstruction_loss,
)


class WeightSchedule:
    """A number, or numbers at some updates and straight lines between them."""

    def __init__(self, given: str, flag: str, start: int = 0) -> None:
        """Read the schedule.

        Args:
            given: 0.2, or 0:0,1000:0,2000:0.2, updates with their weights
            flag: where it was given
            start: the weight is 0 before this update
        """
        self.start = start
        self.points = _points(str(given), flag)
        if start < 0:
            raise ConfigurationError(f"The first update is {start}; expected 0 or more.")

    def at(self, update: int) -> float:
        """Return the weight at an update."""
        if update < self.start:
            return 0.0
        first, last = self.points[0], self.points[-1]
        if update <= first[0]:
            return first[1]
        for (begin, low), (end, high) in zip(self.points, self.points[1:], strict=False):
            if update < end:
                return low + (high - low) * (update - begin) / (end - begin)
        return last[1]


def _points(given: str, flag: str) -> list[tuple[int, float]]:
    parts = given.split(",")
    words = [part.split(":") for part in parts] if ":" in given else [["0", given]]
    try:
        points = [(int(update), float(weight)) for update, weight in words]
    except ValueError:
        points = []
    updates = [update for update, _ in points]
    is_good = all(0 <= weight < float("inf") for _, weight in points)
    if not points or updates != sorted(set(updates)) or not is_good:
        raise ConfigurationError(
            f"{flag} is {given!r}; expected a number of 0 or more, as 0.2, or such numbers at "
            "updates that grow, as 0:0,1000:0,2000:0.2."
        )
    return points


SOURCE, TARGET = "source_text", "target_text"
"""The monolingual texts, by the side of the pairs whose language they have."""
WEIGHT_FLAGS = {SOURCE: "--reconstruction-weight", TARGET: "--reconstruction-target-weight"}
"""That give lambda of each text."""


@dataclass
class ReconstructionLossConfig(CriterionConfig):
    """The options of the loss."""

    reconstruction_weight: str = field(
        default="0.1",
        metadata={
            "help": "lambda, 0 or more, of the loss of monolingual sentences, or a schedule of it: "
            "0:0,1000:0,2000:0.2 is 0 up to update 1000 and grows to 0.2 (default: 0.1)"
        },
    )
    reconstruction_target_weight: Optional[str] = field(  # noqa: UP045 - fairseq reads no other
        default=None,
        metadata={"help": "the same of target-side sentences (default: that of the others)"},
    )
    reconstruction_start_update: int = field(
        default=0, metadata={"help": "lambda is 0 before this update (default: 0)"}
    )
    reconstruction_weighting: ChoiceEnum(list(WEIGHTINGS)) = field(  # type: ignore[valid-type]
        default="marginal",
        metadata={
            "help": "marginal: the sum over the candidates of what leads there and back (the "
            "slides); reinforce: both models learn from each candidate, the first by how well the "
            "second gets back (dual learning); top1: the second from the best candidate alone, "
            "which is back-translation (default: marginal)"
        },
    )
    reconstruction_renormalize: bool = field(
        default=False,
        metadata={
            "help": "with marginal, let the probabilities of the candidates sum to 1; the slides "
            "do not"
        },
    )
    label_smoothing: float = field(
        default=0.0,
        metadata={"help": "of the cross-entropy of pairs, 0 to below 1 (default: 0)"},
    )


@register_criterion("reconstruction_loss", dataclass=ReconstructionLossConfig)
class ReconstructionLoss(Criterion):
    """-(log P(y|x) + log P(x|y) + lambda log sum_k P(y_k|x') P(x'|y_k)), sums over words.

    It is the mean over sentences, whatever --sentence-avg says: otherwise lambda would mean
    something else in each batch.
    """

    def __init__(
        self,
        task: Any,
        reconstruction_weight: str,
        reconstruction_target_weight: Optional[str],  # noqa: UP045
        reconstruction_start_update: int,
        reconstruction_weighting: Any,
        reconstruction_renormalize: bool,
        label_smoothing: float,
    ) -> None:
        super().__init__(task)
        if getattr(task, "directions", None) is None:
            raise ConfigurationError(
                "--criterion reconstruction_loss needs two models. Use it with --task "
                "reconstruction_translation."
            )
        if not 0 <= label_smoothing < 1:
            raise ConfigurationError(
                f"--label-smoothing is {label_smoothing}; expected a share from 0 to below 1."
            )
        self.weighting = str(reconstruction_weighting)
        if self.weighting not in WEIGHTINGS:
            raise ConfigurationError(
                f"--reconstruction-weighting is {self.weighting!r}; expected "
                f"{', '.join(WEIGHTINGS)}."
            )
        given = {SOURCE: (WEIGHT_FLAGS[SOURCE], str(reconstruction_weight))}
        given[TARGET] = given[SOURCE]
        if reconstruction_target_weight is not None:
            given[TARGET] = WEIGHT_FLAGS[TARGET], str(reconstruction_target_weight)
        self.schedules = {
            name: WeightSchedule(weight, flag, reconstruction_start_update)
            for name, (flag, weight) in given.items()
        }
        self.renormalize = reconstruction_renormalize
        self.smoothing = label_smoothing

    def weight(self, text: str, update: int) -> float:
        """Return lambda of a monolingual text at an update."""
        return self.schedules[text].at(update)

    def wanted(self, beam: int) -> int:
        """Return how many of the candidates of a sentence count."""
        return 1 if self.weighting == TOP1 else beam

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, what to divide it by, and what is to be logged.

        The batch is one of AccompaniedPairs; where `candidates` hold some of a monolingual text,
        and its weight, that text counts.
        """
        candidates = sample.get("candidates", {})
        passages = self._pairs(sample)
        trips = {name: self._trip(sample[name], name, found) for name, found in candidates.items()}
        for trip in trips.values():
            passages.extend(trip)
        scores = iter(model(passages))
        sentences = sample["nsentences"]
        log: dict[str, Any] = {"nsentences": sentences, "sample_size": sentences, "ntokens": 0}
        loss = torch.zeros((), device=sample["target"].device)
        for name, passage in zip(("forward", BACKWARD), passages, strict=False):
            smoothed, exact = label_smoothed_nll_loss(
                next(scores), passage.target, self.smoothing, self.padding_idx
            )
            loss = loss + smoothed
            words = int(passage.target.ne(self.padding_idx).sum())
            log |= {f"{name}_loss": exact.detach(), f"{name}_tokens": words}
            log["ntokens"] += words
        for name, trip in trips.items():
            made = [
                log_likelihood(next(scores), passage.target, self.padding_idx) for passage in trip
            ]
            lost = self._lost(made, candidates[name])
            # as many sentences as there are pairs, if not exactly
            loss = loss + candidates[name]["weight"] * sentences * lost.mean()
            log |= {f"{name}_loss": lost.detach().sum(), f"{name}_sentences": len(lost)}
        return loss, sentences, {**log, "loss": loss.detach()}

    def _pairs(self, sample: dict[str, Any]) -> list[DirectionBatch]:
        """Return the pairs, forward and backward."""
        forward, backward = self.task.directions
        passages = []
        for direction, pairs in ((forward, sample), (backward, sample[BACKWARD])):
            sides = pairs["net_input"]
            passages.append(
                DirectionBatch(
                    direction,
                    sides["src_tokens"],
                    sides["src_lengths"],
                    sides["prev_output_tokens"],
                    pairs["target"],
                )
            )
        return passages

    def _trip(
        self, text: dict[str, Any], name: str, candidates: dict[str, Any]
    ) -> tuple[DirectionBatch, ...]:
        """Return what is to be scored of a monolingual text."""
        way = tuple(self.task.directions)
        there, back = reconstruction_batches(
            text,
            candidates,
            way if name == SOURCE else way[::-1],
            self.padding_idx,
            self.task.cfg.left_pad_source,
        )
        return (back,) if self.weighting == TOP1 else (there, back)

    def _lost(self, made: list[Tensor], candidates: dict[str, Any]) -> Tensor:
        """Return the loss of each sentence, from the likelihoods of all ways."""
        shape = candidates["count"], candidates["beam"]
        scores = [group_candidates(one, candidates["slots"], *shape) for one in made]
        return reconstruction_loss(scores[0], scores[-1], self.weighting, self.renormalize)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss of a pair, that of a word in each direction, that of a sentence of text."""
        total = totals(logging_outputs)
        size = total("sample_size")
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=3)
        divisors = {"forward": "tokens", BACKWARD: "tokens", SOURCE: "sentences"}
        for name, unit in {**divisors, TARGET: "sentences"}.items():
            count = total(f"{name}_{unit}")
            if count:
                mean = total(f"{name}_loss") / count / math.log(2)
                metrics.log_scalar(f"{name}_loss", mean, count, round=3)
