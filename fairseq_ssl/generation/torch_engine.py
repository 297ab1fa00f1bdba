"""PyTorch inference for edit taggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.edits.application import TopEdits
from fairseq_ssl.edits.engine import TaggerEngine, pad_sentences
from fairseq_ssl.edits.windows import WindowBatch
from fairseq_ssl.modules.edit_layers import edit_probabilities, top_edits
from fairseq_ssl.text.spans import Ids, Spans


class TorchEngine(TaggerEngine):
    """An engine that scores edits with fairseq models.

    The error probability is the output of the error detection head. Without this head, it is 1
    minus the probability of keep.
    """

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Any,
        weights: Sequence[float] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Use models that have the same token dictionary and edit dictionary.

        Args:
            models: the edit taggers.
            dictionary: the token dictionary.
            weights: weight of each model (default: equal weights).
            device: the device of the models.
        """
        super().__init__(models, weights)
        self.device = device
        self.dictionary = dictionary

    @torch.no_grad()
    def score(self, batch: WindowBatch) -> TopEdits:
        """Return the most probable edits at the positions in `batch.used_positions`."""
        return top_edits(*self.probabilities(batch.text, batch.used_positions))

    def probabilities(self, text: Spans, positions: Ids | None = None) -> list[Tensor]:
        """Return the probabilities of edits [positions, labels] and errors [positions], in float32.

        Args:
            text: sentences, each with <s>.
            positions: indices of the positions to score (default: all positions).
        """
        tokens = torch.from_numpy(pad_sentences(text, self.dictionary)).to(self.device)
        lengths = torch.from_numpy(text.lengths + 1).to(self.device)
        which = None if positions is None else torch.from_numpy(positions).to(self.device)
        return self.mean(self._call_model(model, tokens, lengths, which) for model in self.models)

    def _call_model(
        self, model: Any, tokens: Tensor, lengths: Tensor, which: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return one model's probabilities, as in `probabilities`, at the positions `which`."""
        logits = model(src_tokens=tokens, src_lengths=lengths)
        parts = (part if part is None or which is None else part[which] for part in logits)
        return edit_probabilities(*parts)
