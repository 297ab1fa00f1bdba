"""Two translation models, one per direction, in one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from fairseq.models import BaseFairseqModel, FairseqEncoderDecoderModel
from torch import Tensor, nn

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.dilated_stack import freeze_statistics
from fairseq_ssl.modules.reconstruction import DirectionBatch


class TwoWayModel(BaseFairseqModel):
    """Two encoder-decoder models, one per translation direction, without shared weights."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        """Combine two models. The keys of `models` are directions, such as ``de-en``."""
        super().__init__()
        for model in models.values():
            if not isinstance(model, FairseqEncoderDecoderModel):
                raise ConfigurationError(
                    f"{type(model).__name__} cannot be trained in both directions. Expected an "
                    "architecture with an encoder and a decoder, such as --arch transformer."
                )
            _check_model(model)
        self.models = nn.ModuleDict(models)

    def forward(self, batches: Sequence[DirectionBatch]) -> list[Tensor]:
        """Return log-probabilities [rows, time, vocabulary] for each batch.

        All batches are scored in one call, because DistributedDataParallel allows only one
        `forward` per step.
        """
        return [self._score(batch) for batch in batches]

    def _score(self, batch: DirectionBatch) -> Tensor:
        model: Any = self.models[batch.direction]
        with nullcontext() if batch.is_genuine else freeze_statistics(model):
            if batch.rows is None:
                output = model(batch.source, batch.lengths, batch.previous)
            else:
                # Encode each source once for all its candidates.
                encoded = model.encoder(batch.source, src_lengths=batch.lengths)
                encoded = model.encoder.reorder_encoder_out(encoded, batch.rows)
                output = model.decoder(batch.previous, encoder_out=encoded)
        sample = {"target": batch.target}
        scores: Tensor = model.get_normalized_probs(output, log_probs=True, sample=sample)
        return scores

    def train(self, mode: bool = True) -> TwoWayModel:
        """Set training or evaluation mode, unless all modules are already in this mode.

        fairseq sets the mode before each update. Checking the mode takes a third of the
        time that setting it takes.
        """
        if any(module.training != mode for module in self.modules()):
            super().train(mode)
        return self

    def set_num_updates(self, num_updates: int) -> None:
        """Call each model's `set_num_updates`. fairseq's version would update submodules twice."""
        for model in self._all_models():
            model.set_num_updates(num_updates)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Call `prepare_for_inference_` for each model, which fairseq's version would not do."""
        for model in self._all_models():
            model.prepare_for_inference_(cfg)
        super().prepare_for_inference_(cfg)

    def max_positions(self) -> tuple[int, int]:
        """Return the maximum length in tokens that both models support, for source and target."""
        max_length = min(min(model.max_positions()) for model in self._all_models())
        return max_length, max_length

    def max_decoder_positions(self) -> int:
        """Return the maximum target length in tokens that both models support."""
        return min(int(model.max_decoder_positions()) for model in self._all_models())

    def _all_models(self) -> list[Any]:
        return list(self.models.values())


def _check_model(model: Any) -> None:
    """Reject models with copy-only words, or with position shifts that both sides share."""
    words = len(model.decoder.dictionary)
    if getattr(model, "copy_vocabulary", words) < words:
        raise ConfigurationError(
            f"--copy-vocabulary is {model.copy_vocabulary}, but the dictionary has {words} "
            "entries. Joint training of both directions does not support words that can only be "
            "copied. Remove the option, or use --task copying_translation for each direction."
        )
    positions = getattr(model.decoder, "embed_positions", None)
    if getattr(positions, "leader", None) is not None:
        raise ConfigurationError(
            "--shape-shared-shift cannot be used to train both directions, because a source has "
            "several candidate targets. Remove it."
        )
