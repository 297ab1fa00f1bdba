"""Cross-entropy over edits, with a separate weight for keep edits (PIE)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from fairseq.logging import metrics
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fairseq_ssl.criterions.criterion import (
    Criterion,
    CriterionConfig,
    percent,
    register_criterion,
    totals,
)
from fairseq_ssl.data.edit_dataset import padded_sentences
from fairseq_ssl.edits.application import EditApplier, choose_edits
from fairseq_ssl.edits.coverage import BETA_SQUARED
from fairseq_ssl.edits.decoding import DEFAULT
from fairseq_ssl.edits.dictionary import KEEP_ID
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.edit_layers import edit_probabilities, top_edits
from fairseq_ssl.options import option
from fairseq_ssl.text.spans import Spans

BLOCKS = {"cpu": 2**20, "cuda": 2**24}
"""Maximum number of scores in a block, by device type. A CPU block of 4 MB fits into the cache."""
COUNTS = ("ntokens", "nsentences", "gold", "predicted", "correct", "exact")


@dataclass
class EditCrossEntropyConfig(CriterionConfig):
    """Options of the edit loss."""

    edit_copy_weight: float = option(
        0.4,
        "loss weight of keep edits; PIE uses 0.4 for GEC and 1 for spelling and OCR (table 12)",
        low=0,
    )
    label_smoothing: float = option(0.0, "epsilon for label smoothing", low=0, below=1)


@register_criterion("edit_cross_entropy", dataclass=EditCrossEntropyConfig)
class EditCrossEntropy(Criterion):
    """Cross-entropy -log p(e_i | x), times the copy weight if e_i is keep (PIE, equation 4).

    The loss is averaged over positions, which are the tokens and the start of each sentence. With
    --sentence-avg, it is averaged over sentences, as in the authors' code. The binary cross-entropy
    of the error detection head, if any, is added.
    """

    def __init__(
        self,
        task: Any,
        edit_copy_weight: float,
        label_smoothing: float,
        sentence_avg: bool,
    ) -> None:
        super().__init__(task)
        self.copy_weight = edit_copy_weight
        self.smoothing = label_smoothing
        self.sentence_avg = sentence_avg

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, the sample size and the logging output.

        The sample size is the number of positions, or with --sentence-avg the number of sentences.
        """
        if "labels" not in sample:
            raise ConfigurationError(
                "--criterion edit_cross_entropy needs edit labels, which this split does not "
                "contain. Use --task edit_labeling and data with labels for the split."
            )
        logits = model(**sample["net_input"])
        labels = sample["labels"]
        lengths = sample["net_input"]["src_lengths"]
        if "positions" in sample:  # indices of the tokens among those of the windows
            lengths = sample["lengths"]
            logits = [None if part is None else part[sample["positions"]] for part in logits]
        edits, errors = logits
        weight = torch.where(labels == KEEP_ID, self.copy_weight, 1.0)
        losses = cross_entropy(edits, labels, self.smoothing)
        loss = (weight * losses).sum()
        if errors is not None:
            loss = loss + functional.binary_cross_entropy_with_logits(
                errors.float(), (labels != KEEP_ID).float(), reduction="sum"
            )
        sample_size = sample["nsentences"] if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": loss.detach(),
            "edit_loss": losses.detach().sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample_size,
            **_count_matches(self._chosen(model, logits, sample, lengths), labels, lengths),
        }
        return loss, sample_size, log

    @cached_property
    def _applier(self) -> EditApplier:
        return EditApplier(self.task.edits, self.task.source_dictionary)

    def _chosen(
        self, model: Any, logits: Sequence[Any], sample: dict[str, Any], lengths: Tensor
    ) -> Tensor:
        """Return the edits that decoding with default options chooses in the first round.

        In training, return the most probable edits, even edits that cannot be applied to their
        token, because excluding these edits would need a transfer from a GPU.
        """
        if model.training:
            edits: Tensor = logits[0]
            return edits.detach().argmax(-1)
        source = sample["net_input"]
        text = padded_sentences(source["src_tokens"], source["src_lengths"])
        if "positions" in sample:
            text = Spans(text.ids[sample["positions"].cpu().numpy()], lengths.cpu().numpy() - 1)
        scores = top_edits(*edit_probabilities(*logits))
        chosen = choose_edits(self._applier.candidates(scores, text, 0), text.starts, DEFAULT)
        return torch.from_numpy(chosen.labels).to(lengths.device)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log losses in bits, and precision, recall, F0.5 and correct sentences in percent."""
        total = totals(logging_outputs)
        size, tokens = total("sample_size"), total("ntokens")
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=3)
        metrics.log_scalar("edit_loss", total("edit_loss") / tokens / math.log(2), tokens, round=4)
        for key in COUNTS[1:]:
            metrics.log_scalar(f"_{key}", total(key), weight=1)
        metrics.log_derived(
            "precision", lambda meters: percent(meters, "_correct", "_predicted", 0.0)
        )
        metrics.log_derived("recall", lambda meters: percent(meters, "_correct", "_gold", 0.0))
        metrics.log_derived("f05", _f05)
        metrics.log_derived("exact", lambda meters: percent(meters, "_exact", "_nsentences", 0.0))


def cross_entropy(scores: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Return the cross-entropy at each position, in float32 or float64.

    The losses equal those of PyTorch, but the gradient is the only new tensor as large as `scores`.

    Args:
        scores: [positions, labels], logits.
        labels: [positions], ids of the gold labels.
        smoothing: label smoothing, 0 to 1.
    """
    losses: Tensor = _CrossEntropy.apply(scores, labels, smoothing)  # type: ignore[no-untyped-call]
    return losses


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropy, computed in blocks of positions in the forward and the backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        """Return the losses [positions]."""
        dtype = torch.promote_types(scores.dtype, torch.float32)
        losses, norms = (torch.empty_like(labels, dtype=dtype) for _ in range(2))
        for block in _blocks(scores):
            part = scores[block].to(dtype)
            norms[block] = part.logsumexp(1)
            gold = part.gather(1, labels[block].unsqueeze(1)).squeeze(1)
            losses[block] = norms[block] - (1 - smoothing) * gold - smoothing * part.mean(1)
        ctx.save_for_backward(scores, labels, norms)
        ctx.smoothing = smoothing
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient with respect to the scores, given the gradients of the losses."""
        scores, labels, norms = ctx.saved_tensors
        gradient = torch.empty_like(scores)
        for block in _blocks(scores):
            part = torch.exp(scores[block].to(norms.dtype) - norms[block].unsqueeze(1))
            part -= ctx.smoothing / scores.size(1)
            gold = labels[block].unsqueeze(1)
            part.scatter_add_(1, gold, torch.full_like(gold, ctx.smoothing - 1, dtype=part.dtype))
            gradient[block] = part.mul_(weights[block].unsqueeze(1))
        return gradient, None, None


def _blocks(scores: Tensor) -> Iterator[slice]:
    """Return slices of positions, each with at most `BLOCKS` scores."""
    scores_of_block = BLOCKS.get(scores.device.type, BLOCKS["cuda"])
    size = max(1, scores_of_block // scores.size(1))
    return (slice(begin, begin + size) for begin in range(0, len(scores), size))


def _count_matches(predicted: Tensor, labels: Tensor, lengths: Tensor) -> dict[str, Tensor]:
    """Count gold edits, predicted edits and correct edits, all except keep, and correct sentences.

    Args:
        predicted: [positions], ids of the predicted edits.
        labels: [positions], ids of the gold edits.
        lengths: [batch], sentence lengths including <s> and </s>. </s> has no label.
    """
    equal = predicted == labels
    sentence = torch.repeat_interleave(
        torch.arange(len(lengths), device=labels.device), lengths - 1, output_size=len(labels)
    )
    wrong = torch.zeros(len(lengths), device=labels.device).index_add_(
        0, sentence, (~equal).float()
    )
    return {
        "gold": (labels != KEEP_ID).sum(),
        "predicted": (predicted != KEEP_ID).sum(),
        "correct": (equal & (labels != KEEP_ID)).sum(),
        "exact": (wrong == 0).sum(),
    }


def _f05(meters: Any) -> float:
    keys = ("_correct", "_predicted", "_gold")
    correct, predicted, gold = (float(meters[key].sum) for key in keys)
    divisor = predicted + BETA_SQUARED * gold
    return round(100 * (1 + BETA_SQUARED) * correct / divisor, 2) if divisor else 0.0
