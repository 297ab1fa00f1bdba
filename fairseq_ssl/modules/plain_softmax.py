"""Whether a model's probabilities at a position depend on the logits at that position alone."""

from __future__ import annotations

from typing import Any

from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerModelBase

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
