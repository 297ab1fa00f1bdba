"""What models say of sentences: the probabilities of edits, and those of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.dictionary import KEEP_ID


class Probabilities(NamedTuple):
    """In float32, for the start and each token of sentences, end to end."""

    edits: Tensor
    """[positions, labels]"""
    errors: Tensor
    """That there is an edit [positions]."""


class EditProbabilities:
    """Asks one model, or takes the mean of several (PIE, section 3.1.1).

    The probability of an error is what a model's detection head says; without one it is 1 minus
    that of keep.
    """

    def __init__(self, models: Sequence[Any], dictionary: Any) -> None:
        """Make it for models that score the edits of the tokens of a dictionary."""
        self.models = models
        self.start_and_end = dictionary.bos(), dictionary.eos()
        self.pad, self.unknown = dictionary.pad(), dictionary.unk()

    @torch.no_grad()
    def __call__(self, text: Spans, wanted: Ids | None, device: torch.device) -> Probabilities:
        """Ask for the edits of sentences.

        Args:
            text: sentences, each with its start first
            wanted: for which of their positions; None: for all
            device: where the models are
        """
        tokens = self.batch(text).to(device)
        lengths = torch.from_numpy(text.lengths + 1).to(device)
        which = None if wanted is None else torch.from_numpy(wanted).to(device)
        edits, errors = self._of_model(self.models[0], tokens, lengths, which)
        for model in self.models[1:]:
            more = self._of_model(model, tokens, lengths, which)
            edits += more.edits
            errors += more.errors
        if len(self.models) > 1:
            edits /= len(self.models)
            errors /= len(self.models)
        return Probabilities(edits, errors)

    def batch(self, text: Spans) -> Tensor:
        """Lay sentences out as [batch, time], with their ends, padded on the right.

        A word that is written as a symbol of fairseq's for the end or for padding is one that
        the model does not know.
        """
        ids = text.ids
        symbols = (ids == self.start_and_end[1]) | (ids == self.pad)
        if symbols.any():
            ids = np.where(symbols, self.unknown, ids)
        whole = Spans(ids, text.lengths).with_last(self.start_and_end[1])
        return torch.from_numpy(whole.padded(self.pad, False, 0, 1))

    def _of_model(
        self, model: Any, tokens: Tensor, lengths: Tensor, which: Tensor | None
    ) -> Probabilities:
        logits = model(src_tokens=tokens, src_lengths=lengths)
        scores, errors = logits.edits, logits.errors
        if which is not None:
            scores = scores[which]
            errors = None if errors is None else errors[which]
        edits = scores.softmax(-1, dtype=torch.float32)
        return Probabilities(
            edits, 1 - edits[:, KEEP_ID] if errors is None else errors.float().sigmoid()
        )
