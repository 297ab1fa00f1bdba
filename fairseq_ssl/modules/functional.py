"""Small tensor functions: exact buffers, random bits of integers, plain softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn


class ExactBuffers(nn.Module):
    """A module whose own buffers go wherever it goes, and keep their type.

    ``half()`` would round large numbers and lose small ones in them. As integers they would be
    safe too, but a moving average of the weights, fairseq's --store-ema, stops at those.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, kept in before.items():
            now = self._buffers[name]
            if kept is not None and now is not None and now.dtype != kept.dtype:
                self._buffers[name] = kept.to(now.device)
        return moved


_FACTORS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def mix_bits(bits: Tensor) -> Tensor:
    """Spread each bit of integers over all of theirs."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = (bits ^ shifted_right(bits, shift)) * factor
    return bits ^ shifted_right(bits, 31)


def shifted_right(bits: Tensor, count: int) -> Tensor:
    """Shift integers to the right, zeros coming in."""
    return (bits >> count) & ((1 << (64 - count)) - 1)


PLAIN_SOFTMAX = {
    BaseFairseqModel.get_normalized_probs,
    BaseFairseqModel.get_normalized_probs_scriptable,
    TransformerModelBase.get_normalized_probs,
    FairseqDecoder.get_normalized_probs,
    FairseqDecoder.get_normalized_probs_scriptable,
}
"""fairseq's own ways from logits to probabilities, each position by itself."""


def is_plain_softmax(model: Any) -> bool:
    """Tell whether the model takes its probabilities from logits as fairseq's own do."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, FairseqDecoder) or getattr(decoder, "adaptive_softmax", None):
        return False
    ways = [
        getattr(module, name, None)
        for module in (model, decoder)
        for name in ("get_normalized_probs", "get_normalized_probs_scriptable")
    ]
    return all(getattr(way, "__func__", None) in PLAIN_SOFTMAX for way in ways)
