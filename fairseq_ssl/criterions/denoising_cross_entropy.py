"""Loss for denoising pre-training: cross-entropy mainly over noised words (PoDA, equation 2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import metrics
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from fairseq_ssl.criterions.criterion import (
    Criterion,
    CriterionConfig,
    percent,
    register_criterion,
    totals,
)
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.copying import IMPOSSIBLE
from fairseq_ssl.modules.functional import is_plain_softmax
from fairseq_ssl.options import option


@dataclass
class DenoisingCrossEntropyConfig(CriterionConfig):
    """Options of the denoising loss."""

    label_smoothing: float = option(0.0, "epsilon for label smoothing", low=0, high=1)
    denoise_keep_rate: float = option(
        0.03,
        "fraction of unchanged words that are included in the loss; noised words and end symbols "
        "are always included (PoDA, section 2.2)",
        low=0,
        high=1,
    )


@register_criterion("denoising_cross_entropy", dataclass=DenoisingCrossEntropyConfig)
class DenoisingCrossEntropy(Criterion):
    """Cross-entropy over noised words, a random sample of the other words, and end symbols.

    For a text x and its noised version x', the loss is -sum_i mask(i) log p(x_i | x', x_<i),
    divided by sum_i mask(i). Both sums include all processes and accumulated batches. In
    validation, mask(i) of an unchanged word is its expected value, `denoise_keep_rate`.
    """

    def __init__(
        self,
        task: Any,
        label_smoothing: float,
        denoise_keep_rate: float,
        sentence_avg: bool = False,
    ) -> None:
        super().__init__(task)
        if sentence_avg:
            raise ConfigurationError(
                "--sentence-avg cannot be used with --criterion denoising_cross_entropy, which "
                "averages over words. Remove --sentence-avg."
            )
        self.eps = label_smoothing
        self.keep_rate = denoise_keep_rate
        self.eos = task.target_dictionary.eos()

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, float, dict[str, Any]]:
        """Return the loss, the sample size and the logging output.

        The sample size is sum_i mask(i), the number of positions that count. In validation, it is
        the expected number.
        """
        if "changed" not in sample:
            raise ConfigurationError(
                "--criterion denoising_cross_entropy needs the positions of noised words, which "
                "this task does not provide. Use --task denoising_pretraining, or use --criterion "
                "label_smoothed_cross_entropy."
            )
        late = _can_delay_output(model)
        net_output = model(**sample["net_input"], **({"features_only": True} if late else {}))
        target = model.get_targets(sample, net_output).flatten()
        changed = sample["changed"].flatten()
        weight = self._weight(target, changed, training=model.training)
        kept = weight.nonzero().squeeze(1)
        lprobs = _log_probabilities(model, net_output, kept, late)
        target, changed, weight = target[kept], changed[kept], weight[kept]
        losses, nll_losses = label_smoothed_nll_loss(lprobs, target, self.eps, reduce=False)
        if self.eps and hasattr(model, "copy_vocabulary"):
            share = self.eps / (lprobs.size(1) - 1)
            losses = losses + share * _impossible_terms(lprobs, model.copy_vocabulary)
        loss, nll_loss = (weight * losses).sum(), (weight * nll_losses).sum()
        sample_size = float(len(kept)) if model.training else float(weight.sum())
        correct = lprobs.detach().argmax(-1).eq(target)
        return (
            loss if reduce else weight * losses,
            sample_size,
            {
                "loss": loss.detach(),
                "nll_loss": nll_loss.detach(),
                "ntokens": sample["ntokens"],
                "nsentences": sample["target"].size(0),
                "sample_size": sample_size,
                "changed": changed.sum(),
                "changed_correct": (correct & changed).sum(),
            },
        )

    def _weight(self, target: Tensor, changed: Tensor, training: bool) -> Tensor:
        """Return mask(i) in equation 2 or, in validation, its expected value [batch * time]."""
        is_kept = changed | target.eq(self.eos)
        if training:
            drawn = torch.rand(target.shape, device=target.device) < self.keep_rate
            weight = (is_kept | drawn).float()
        else:
            weight = is_kept.float().clamp(min=self.keep_rate)
        return weight.masked_fill(target.eq(self.padding_idx), 0.0)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log losses in bits, perplexity, and fraction and accuracy of noised words in percent."""
        total = totals(logging_outputs)
        size = total("sample_size")
        for key in ("loss", "nll_loss"):
            metrics.log_scalar(key, total(key) / size / math.log(2), size, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        words = total("ntokens") - total("nsentences")
        for key, count in (("_words", words), ("_changed", total("changed"))):
            metrics.log_scalar(key, count, weight=1)
        metrics.log_scalar("_changed_correct", total("changed_correct"), weight=1)
        metrics.log_derived(
            "changed_share", lambda meters: percent(meters, "_changed", "_words", math.nan)
        )
        metrics.log_derived(
            "changed_accuracy",
            lambda meters: percent(meters, "_changed_correct", "_changed", math.nan),
        )


def _impossible_terms(lprobs: Tensor, vocabulary: int) -> Tensor:
    """Sum log p over the words that a position's sentence cannot copy. Return the sums [n].

    These out-of-vocabulary words occur only in other sentences of the batch. Their log p is
    constant and has no gradient.
    """
    copied = lprobs.detach()[:, vocabulary:]
    return copied.masked_fill(copied > IMPOSSIBLE, 0.0).sum(1)


def _is_positionwise(model: Any) -> bool:
    """Return True if the probabilities at a position depend only on the logits at that position."""
    decoder = getattr(model, "decoder", None)
    return hasattr(decoder, "log_probabilities_at") or is_plain_softmax(model)


def _can_delay_output(model: Any) -> bool:
    """Return True if the output layer can be applied after `forward`, to the kept positions only.

    This requires a position-wise Transformer decoder whose output layer shares its weights with the
    embeddings. Without sharing, `forward` would not use the output weights, and
    DistributedDataParallel may treat them as unused parameters.
    """
    decoder = getattr(model, "decoder", None)
    if not _is_positionwise(model) or not isinstance(decoder, TransformerDecoderBase):
        return False
    return decoder.output_projection.weight is decoder.embed_tokens.weight


def _log_probabilities(model: Any, net_output: Any, kept: Tensor, late: bool) -> Tensor:
    """Return log p [kept, vocabulary] at the kept positions.

    If the model allows it, the softmax is computed at these positions only. With `late`,
    `net_output` contains features, and the output layer is also applied at these positions only.
    """
    if not _is_positionwise(model):
        lprobs: Tensor = model.get_normalized_probs(net_output, log_probs=True)
        return lprobs.flatten(0, 1)[kept]
    logits = net_output[0].flatten(0, 1).index_select(0, kept)
    if late:
        logits = model.decoder.output_layer(logits)
    if hasattr(model.decoder, "log_probabilities_at"):
        chosen: Tensor = model.decoder.log_probabilities_at(logits, net_output[1], kept)
        return chosen
    chosen = model.get_normalized_probs((logits, None), log_probs=True)
    return chosen
