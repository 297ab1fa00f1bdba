"""Buffers that keep their dtype, integer hashing, and a check for plain softmax outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn


class ExactBuffers(nn.Module):
    """A module whose own buffers keep their dtype when the module is cast to half precision.

    Half precision would round large numbers and flush small ones to zero. Integer buffers would
    also be exact, but fairseq's moving average of weights (--store-ema) fails on integers.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, exact in before.items():
            cast = self._buffers[name]
            if exact is not None and cast is not None and cast.dtype != exact.dtype:
                self._buffers[name] = exact.to(cast.device)
        return result


_FACTORS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def mix_bits(bits: Tensor) -> Tensor:
    """Hash 64-bit integers with the finalizer of SplitMix64."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = (bits ^ logical_right_shift(bits, shift)) * factor
    return bits ^ logical_right_shift(bits, 31)


def logical_right_shift(bits: Tensor, count: int) -> Tensor:
    """Shift 64-bit integers right and fill with zeros. PyTorch's `>>` repeats the sign bit."""
    return (bits >> count) & ((1 << (64 - count)) - 1)


PLAIN_SOFTMAX = {
    BaseFairseqModel.get_normalized_probs,
    BaseFairseqModel.get_normalized_probs_scriptable,
    TransformerModelBase.get_normalized_probs,
    FairseqDecoder.get_normalized_probs,
    FairseqDecoder.get_normalized_probs_scriptable,
}
"""fairseq's methods that apply a softmax to the logits of each position."""


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
