"""Two models of translation, one for each direction, in one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from fairseq.models import BaseFairseqModel, FairseqEncoderDecoderModel
from torch import Tensor, nn

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.dilated_stack import kept_statistics
from fairseq_ssl.modules.reconstruction import Passage


class TwoWayModel(BaseFairseqModel):
    """Any two models with an encoder and a decoder, which share nothing."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        """Hold the models by their directions, as in ``de-en``."""
        super().__init__()
        for model in models.values():
            if not isinstance(model, FairseqEncoderDecoderModel):
                raise ConfigurationError(
                    f"A {type(model).__name__} can not be trained both ways: expected an "
                    "architecture with an encoder and a decoder, as --arch transformer."
                )
            _refuse_words_to_copy(model)
        self.models = nn.ModuleDict(models)

    def forward(self, passages: Sequence[Passage]) -> list[Tensor]:
        """Return log-probabilities [rows, time, vocabulary] for each passage.

        All of a step's work is done in one call, which distributed training asks for.
        """
        return [self._scores(passage) for passage in passages]

    def _scores(self, passage: Passage) -> Tensor:
        model: Any = self.models[passage.direction]
        with nullcontext() if passage.is_genuine else kept_statistics(model):
            if passage.rows is None:
                output = model(passage.source, passage.lengths, passage.previous)
            else:
                # a source is encoded once for all of its candidates
                encoded = model.encoder(passage.source, src_lengths=passage.lengths)
                encoded = model.encoder.reorder_encoder_out(encoded, passage.rows)
                output = model.decoder(passage.previous, encoder_out=encoded)
        sample = {"target": passage.target}
        scores: Tensor = model.get_normalized_probs(output, log_probs=True, sample=sample)
        return scores

    def train(self, mode: bool = True) -> TwoWayModel:
        """Enter training or leave it; told again, a small model would spend a tenth of its time."""
        if any(model.training != mode for model in (self, *self._all_models())):
            super().train(mode)
        return self

    def set_num_updates(self, num_updates: int) -> None:
        """Tell both models, each of which tells its modules; fairseq would tell those twice."""
        for model in self._all_models():
            model.set_num_updates(num_updates)

    def max_positions(self) -> tuple[int, int]:
        """Return how long a sentence may be, on either side of either model."""
        longest = min(min(model.max_positions()) for model in self._all_models())
        return longest, longest

    def max_decoder_positions(self) -> int:
        """Return how long a target may be."""
        return min(int(model.max_decoder_positions()) for model in self._all_models())

    def _all_models(self) -> list[Any]:
        return list(self.models.values())


def _refuse_words_to_copy(model: Any) -> None:
    """Refuse a model that numbers some words anew for each source: the loss would miss them."""
    words = len(model.decoder.dictionary)
    if getattr(model, "copy_vocabulary", words) < words:
        raise ConfigurationError(
            f"--copy-vocabulary is {model.copy_vocabulary}, and the dictionary has {words} "
            "entries: words that can only be copied can not be trained on both ways. Leave it "
            "out, or train each direction by itself with --task copying_translation."
        )
