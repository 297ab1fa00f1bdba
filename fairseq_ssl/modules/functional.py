"""Functions for data types, padded batches, initial weights, hashing and softmax."""

from __future__ import annotations

import functools
import logging
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

logger = logging.getLogger(__name__)

INIT_STD = 0.02
"""Standard deviation of initial weights, as in BERT."""


@functools.cache
def has_bfloat16_units() -> bool:
    """Return True if this processor computes in bfloat16. Otherwise, log a warning.

    On other processors, matrix products take 3 to 100 times as long as in float32, and LSTMs under
    autocast raise a RuntimeError without AVX-512.
    """
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    has_kernels = has_onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    if has_kernels and (not is_x86 or torch.cpu._is_avx512_bf16_supported()):
        return True
    logger.warning(
        "This processor has no bfloat16 units (on x86, avx512_bf16), so the model is trained in "
        "float32."
    )
    return False


class ExactBuffers(nn.Module):
    """A module whose own buffers keep their dtype when the module is cast to half precision.

    Half precision would round large numbers and flush small numbers to zero. Integer buffers would
    also be exact, but fairseq's moving average of weights (--store-ema) does not support them.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, exact in before.items():
            cast = self._buffers[name]
            if exact is not None and cast is not None and cast.dtype != exact.dtype:
                self._buffers[name] = exact.to(cast.device)
        return result


@dataclass(frozen=True)
class Rows:
    """Positions of vectors in a padded batch, so that layers can skip the padding."""

    batch: int
    time: int
    index: Tensor | None
    """[rows], index of each vector in the flattened batch, or None if there is no padding."""

    @classmethod
    def of_mask(cls, real: Tensor) -> Rows:
        """Return the positions where `real` [batch, time] is True, or all positions on export."""
        # An exported graph cannot depend on the values of its input.
        if torch.compiler.is_compiling():
            return cls(real.size(0), real.size(1), None)
        index = real.flatten().nonzero().squeeze(1)
        is_padded = len(index) < real.numel()
        return cls(real.size(0), real.size(1), index if is_padded else None)

    @classmethod
    def of_sentences(cls, sentence: Tensor, batch: int) -> Rows:
        """Return the positions of vectors in a right-padded batch from sorted sentence indices."""
        counts = torch.bincount(sentence, minlength=batch)
        time = int(counts.max())
        if batch * time == len(sentence):
            return cls(batch, time, None)
        shift = torch.arange(batch, device=sentence.device) * time - (counts.cumsum(0) - counts)
        return cls(
            batch, time, torch.arange(len(sentence), device=sentence.device) + shift[sentence]
        )

    def pad(self, rows: Tensor) -> Tensor:
        """Return vectors [rows, dim] as [batch, time, dim], with zeros at padding."""
        if self.index is not None:
            padded = rows.new_zeros(self.batch * self.time, rows.size(1))
            rows = padded.index_copy(0, self.index, rows)
        return rows.view(self.batch, self.time, rows.size(1))

    def pack(self, padded: Tensor) -> Tensor:
        """Return the vectors [rows, dim] in a batch [batch, time, dim], without padding."""
        rows = padded.flatten(0, 1)
        return rows if self.index is None else rows.index_select(0, self.index)


def weight_version(weight: Tensor) -> tuple[int, int]:
    """Return a key that changes when a weight is replaced or modified in place.

    In-place changes of `weight.data` are not detected.
    """
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def init_bert_weights(module: nn.Module) -> None:
    """Initialize a linear layer or an embedding as in BERT. Do not change other modules."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=INIT_STD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


_FACTORS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def mix_bits(bits: Tensor) -> Tensor:
    """Hash 64-bit integers with SplitMix64's finalizer."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = (bits ^ logical_right_shift(bits, shift)) * factor
    return bits ^ logical_right_shift(bits, 31)


def logical_right_shift(bits: Tensor, count: int) -> Tensor:
    """Shift 64-bit integers right by `count` bits. Unlike `>>`, fill with 0, not the sign bit."""
    return (bits >> count) & ((1 << (64 - count)) - 1)


PLAIN_SOFTMAX = {
    BaseFairseqModel.get_normalized_probs,
    BaseFairseqModel.get_normalized_probs_scriptable,
    TransformerModelBase.get_normalized_probs,
    FairseqDecoder.get_normalized_probs,
    FairseqDecoder.get_normalized_probs_scriptable,
}
"""fairseq's methods that apply a softmax to the logits at each position."""


def is_plain_softmax(model: Any) -> bool:
    """Return True if the model's probabilities are the softmax of the logits at each position."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, FairseqDecoder) or getattr(decoder, "adaptive_softmax", None):
        return False
    methods = [
        getattr(module, name, None)
        for module in (model, decoder)
        for name in ("get_normalized_probs", "get_normalized_probs_scriptable")
    ]
    return all(getattr(method, "__func__", None) in PLAIN_SOFTMAX for method in methods)
