"""PoDA's masked loss: what noise changed counts, and a few of the other words (equation 2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import metrics
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from fairseq_ssl.criterions.criterion import Criterion, CriterionConfig, percent, totals
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.functional import is_plain_softmax


@dataclass
class DenoisingCrossEntropyConfig(CriterionConfig):
    """The options of the loss."""

    label_smoothing: float = field(
        default=0.0,
        metadata={
            "help": "share of the probability, 0 to 1, spread over all words as in "
            "label_smoothed_cross_entropy; epsilon (default: 0)"
        },
    )
    denoise_keep_rate: float = field(
        default=0.03,
        metadata={
            "help": "share, 0 to 1, of the words that noise did not touch to train on as well; "
            "those it changed and the end of the sentence always are (default: 0.03, PoDA, "
            "section 2.2)"
        },
    )


@register_criterion("denoising_cross_entropy", dataclass=DenoisingCrossEntropyConfig)
class DenoisingCrossEntropy(Criterion):
    """Cross-entropy over what noise changed, a few of the other words and sentence ends.

    L = -sum_i mask(i) log p(x_i | x', x_<i), divided by the number of positions kept: over
    all processes and accumulated batches, as that is the sample size. Outside training
    mask(i) is `denoise_keep_rate` for each word not changed, which is its mean in training.
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
                "--criterion denoising_cross_entropy divides by the positions kept, not by "
                "sentences. Leave --sentence-avg out."
            )
        for flag, rate in (
            ("--label-smoothing", label_smoothing),
            ("--denoise-keep-rate", denoise_keep_rate),
        ):
            if not 0 <= rate <= 1:
                raise ConfigurationError(f"{flag} is {rate}; expected a share from 0 to 1.")
        self.eps = label_smoothing
        self.keep_rate = denoise_keep_rate
        self.eos = task.target_dictionary.eos()

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, float, dict[str, Any]]:
        """Return the summed loss, the number of positions kept, and what is to be logged."""
        if "changed" not in sample:
            raise ConfigurationError(
                "--criterion denoising_cross_entropy needs to know which words are noised, but the "
                "batches of this task do not say so. Use it with --task denoising_pretraining, or "
                "train with --criterion label_smoothed_cross_entropy."
            )
        late = _has_late_output(model)
        net_output = model(**sample["net_input"], **({"features_only": True} if late else {}))
        target = model.get_targets(sample, net_output).flatten()
        changed = sample["changed"].flatten()
        weight = self._weight(target, changed, training=model.training)
        kept = weight.nonzero().squeeze(1)
        lprobs = _log_probabilities(model, net_output, kept, late)
        target, changed, weight = target[kept], changed[kept], weight[kept]
        each, each_nll = label_smoothed_nll_loss(lprobs, target, self.eps, reduce=False)
        loss, nll_loss = (weight * each).sum(), (weight * each_nll).sum()
        sample_size = float(len(kept)) if model.training else float(weight.sum())
        right = lprobs.detach().argmax(-1).eq(target)
        return (
            loss if reduce else weight * each,
            sample_size,
            {
                "loss": loss.detach(),
                "nll_loss": nll_loss.detach(),
                "ntokens": sample["ntokens"],
                "nsentences": sample["target"].size(0),
                "sample_size": sample_size,
                "changed": changed.sum(),
                "changed_right": (right & changed).sum(),
            },
        )

    def _weight(self, target: Tensor, changed: Tensor, training: bool) -> Tensor:
        """Return mask(i) of equation 2 for each position [batch * time]."""
        is_kept = changed | target.eq(self.eos)
        if training:
            drawn = torch.rand(target.shape, device=target.device) < self.keep_rate
            weight = (is_kept | drawn).float()
        else:
            weight = is_kept.float().clamp(min=self.keep_rate)
        return weight.masked_fill(target.eq(self.padding_idx), 0.0)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss in bits, and in percent the words changed and those of them right."""
        total = totals(logging_outputs)
        size = total("sample_size")
        for key in ("loss", "nll_loss"):
            metrics.log_scalar(key, total(key) / size / math.log(2), size, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        words = total("ntokens") - total("nsentences")
        for key, count in (("_words", words), ("_changed", total("changed"))):
            metrics.log_scalar(key, count, weight=1)
        metrics.log_scalar("_changed_right", total("changed_right"), weight=1)
        metrics.log_derived(
            "changed_share", lambda meters: percent(meters, "_changed", "_words", math.nan)
        )
        metrics.log_derived(
            "changed_accuracy",
            lambda meters: percent(meters, "_changed_right", "_changed", math.nan),
        )


def _is_positionwise(model: Any) -> bool:
    """Tell whether what the model says at a position needs the logits of that position alone."""
    decoder = getattr(model, "decoder", None)
    return hasattr(decoder, "log_probabilities_at") or is_plain_softmax(model)


def _has_late_output(model: Any) -> bool:
    """Tell whether the output layer can wait until it is known which positions are kept.

    It can where it has its weights from the embeddings: DistributedDataParallel may take weights
    that no forward uses for idle ones.
    """
    decoder = getattr(model, "decoder", None)
    if not _is_positionwise(model) or not isinstance(decoder, TransformerDecoderBase):
        return False
    return decoder.output_projection.weight is decoder.embed_tokens.weight


def _log_probabilities(model: Any, net_output: Any, kept: Tensor, late: bool) -> Tensor:
    """Return log p [kept, vocabulary] of the positions kept.

    Where each position goes through a softmax of its own, the others are not put through it, nor
    `late`, where `net_output` has features, through the output layer.
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
