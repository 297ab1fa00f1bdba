"""A base class of decoders that score the vocabulary from features."""

from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor


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
