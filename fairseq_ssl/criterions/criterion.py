"""Base class of losses, cross-entropy with label smoothing, and helpers for logging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import criterions, utils
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_ssl.options import checked

CPU_CHUNK, GPU_CHUNK = 2**18, 2**25
"""Maximum number of probabilities in a chunk on a CPU or GPU. A CPU chunk fits into the cache."""

register_criterion = checked(criterions.register_criterion, "build_criterion")
"""fairseq's decorator `register_criterion`, extended to check options before a loss is built."""


@dataclass
class CriterionConfig(FairseqDataclass):
    """Base class of loss options. fairseq-hydra-train passes `sentence_avg` to every loss."""

    sentence_avg: bool = II("optimization.sentence_avg")


class Criterion(FairseqCriterion):
    """Base class of losses. Logging outputs are sums, which fairseq adds up across processes."""

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: fairseq may sum logging outputs across processes before `reduce_metrics`."""
        return True


def smoothed_cross_entropy(
    logits: Tensor, target: Tensor, smoothing: float, padding: int, reduce: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the loss and the negative log-likelihood, like fairseq's `label_smoothed_nll_loss`.

    To save memory, distributions are computed in chunks of rows, and recomputed for the gradient.

    Args:
        logits: [rows, vocabulary], scores before the softmax.
        target: [rows], ids of the target words.
        smoothing: total probability of all words except the target, 0 to 1.
        padding: padding id. Rows with this target have a loss of 0.
        reduce: whether to return sums over rows instead of one value per row [rows, 1].
    """
    likelihoods, sums = _ChunkedLogSoftmax.apply(logits, target)  # type: ignore[no-untyped-call]
    is_padding = target.eq(padding)
    nll_loss = -likelihoods.masked_fill(is_padding, 0.0).unsqueeze(1)
    smooth_loss = -sums.masked_fill(is_padding, 0.0).unsqueeze(1)
    if reduce:
        nll_loss, smooth_loss = nll_loss.sum(), smooth_loss.sum()
    share = smoothing / (logits.size(1) - 1)
    return (1.0 - smoothing - share) * nll_loss + share * smooth_loss, nll_loss


class _ChunkedLogSoftmax(torch.autograd.Function):
    """Autograd function for each target's log p and the sum of log p over the vocabulary."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets' log p and the sums over the vocabulary, both [rows] in float32."""
        ctx.save_for_backward(logits, target)
        ctx.rows = max(1, (GPU_CHUNK if logits.is_cuda else CPU_CHUNK) // logits.size(1))
        chosen = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
        sums = torch.empty_like(chosen)
        chunks = (torch.split(tensor, ctx.rows) for tensor in (logits, target, chosen, sums))
        for scores, words, likelihood, total in zip(*chunks, strict=True):
            log_p = torch.log_softmax(scores, 1, dtype=torch.float32)
            likelihood.copy_(log_p.gather(1, words.unsqueeze(1)).squeeze(1))
            total.copy_(log_p.sum(1))
        return chosen, sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_chosen: Tensor, to_sums: Tensor) -> tuple[Tensor, None]:
        """Return the gradient with respect to the logits: g (onehot - p) + s (1 - V p).

        g and s are the gradients with respect to the two outputs, and V is the vocabulary size.
        """
        logits, target = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        total = to_chosen + to_sums * logits.size(1)
        values = (gradient, logits, target, to_chosen, to_sums, total)
        chunks = (torch.split(tensor, ctx.rows) for tensor in values)
        for out, scores, words, chosen, sums, both in zip(*chunks, strict=True):
            p = torch.softmax(scores, 1, dtype=torch.float32)
            torch.addcmul(sums.unsqueeze(1), p, both.unsqueeze(1), value=-1, out=p)
            p.scatter_add_(1, words.unsqueeze(1), chosen.unsqueeze(1))
            out.copy_(p)
        return gradient, None


def totals(logging_outputs: Sequence[dict[str, Any]]) -> Callable[[str], Any]:
    """Return a function that sums the values of a key in the logging outputs (0 if missing)."""

    def total(key: str) -> Any:
        return sum(utils.item(log.get(key, 0)) for log in logging_outputs)

    return total


def percent(meters: Any, part: str, total: str, default: float) -> float:
    """Return 100 * part / total for the sums of two meters, or `default` if the total is 0."""
    count = float(meters[total].sum)
    return round(100 * float(meters[part].sum) / count, 2) if count else default
