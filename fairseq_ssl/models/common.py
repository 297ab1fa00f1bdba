"""Parts of several architectures: default sizes, and the base of decoders."""

from __future__ import annotations

from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor


def fill_defaults(args: Any, **defaults: Any) -> None:
    """Set the options that the user did not set. fairseq's parser omits them or sets None."""
    for name, default in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, default)


def fill_sizes(args: Any, layers: int, dim: int, inner_dim: int, heads: int) -> None:
    """Set the sizes of an encoder in fairseq's options."""
    fill_defaults(
        args,
        encoder_layers=layers,
        encoder_embed_dim=dim,
        encoder_ffn_embed_dim=inner_dim,
        encoder_attention_heads=heads,
    )


class FeatureDecoder(FairseqIncrementalDecoder):
    """A decoder with `extract_features` and `output_layer`, as fairseq's TransformerDecoder has.

    Subclasses define both.
    """

    scores_features_alone = True
    """Whether `output_layer` computes the scores from the features alone."""

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return scores [batch, time, vocabulary] for ids [batch, time], or for the last one."""
        features, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return features if features_only else self.output_layer(features), extra
