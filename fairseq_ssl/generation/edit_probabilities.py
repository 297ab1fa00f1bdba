"""Edit probabilities of sentences, and the edits among which to choose (PIE)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_ssl.data.edit_windows import Windows
from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.dictionary import KEEP_ID, EditDictionary
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.edit_choice import EditCandidates, PossibleEdits, best_candidates

MIN_WINDOWS = 16
"""Minimum number of windows in a batch. The maximum of it and the number of sentences is used."""


class Probabilities(NamedTuple):
    """Probabilities of sentences, concatenated, in float32. Positions are <s> and tokens."""

    edits: Tensor
    """[positions, labels], the probability of each edit."""
    errors: Tensor
    """[positions], the probability that there is an edit."""


class EditProbabilities:
    """Edit probabilities of a model, or the weighted mean of an ensemble (PIE, section 3.1.1).

    The error probability is the output of the detection head. Without such a head, it is 1 minus
    the probability of keep.
    """

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Any,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Average over `models`, which must have the same token dictionary and edit dictionary.

        Args:
            models: the edit taggers. Their encoders and subwords can be different.
            dictionary: the token dictionary.
            weights: a weight for each model. None: equal weights.
        """
        self.models = models
        self.weights = _normalize(weights or [1.0] * len(models), len(models))
        self.start_and_end = dictionary.bos(), dictionary.eos()
        self.pad, self.unknown = dictionary.pad(), dictionary.unk()

    @torch.no_grad()
    def __call__(self, text: Spans, positions: Ids | None, device: torch.device) -> Probabilities:
        """Return the edit probabilities of sentences, averaged over the models.

        Args:
            text: sentences, each with <s>.
            positions: indices of the positions to return. None: all positions.
            device: device of the models.
        """
        tokens = self.batch(text).to(device)
        lengths = torch.from_numpy(text.lengths + 1).to(device)
        which = None if positions is None else torch.from_numpy(positions).to(device)
        outputs = (self._call_model(model, tokens, lengths, which) for model in self.models)
        return Probabilities(*self._mean(outputs))

    def _mean(self, values: Iterator[tuple[Tensor, ...]]) -> list[Tensor]:
        """Return the weighted mean of each field over the models. Tensors are changed in place."""
        means = list(next(values))
        if len(self.models) == 1:
            return means
        for mean in means:
            mean *= self.weights[0]
        for weight, value in zip(self.weights[1:], values, strict=True):
            for mean, part in zip(means, value, strict=True):
                mean.add_(part, alpha=weight)
        return means

    def batch(self, text: Spans) -> Tensor:
        """Return sentences as ids [batch, time] with </s>, padded on the right.

        <s>, </s> and padding symbols within a sentence become <unk>.
        """
        ids = text.ids
        symbols = (ids == self.start_and_end[1]) | (ids == self.pad)
        symbols |= ids == self.start_and_end[0]
        symbols[text.starts] = False
        if symbols.any():
            ids = np.where(symbols, self.unknown, ids)
        sentences = Spans(ids, text.lengths).with_last(self.start_and_end[1])
        return torch.from_numpy(sentences.pad(self.pad, False, 0, 1))

    def _call_model(
        self, model: Any, tokens: Tensor, lengths: Tensor, which: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the probabilities of the edits, and of any edit."""
        logits = model(src_tokens=tokens, src_lengths=lengths)
        scores, errors = logits.edits, logits.errors
        if which is not None:
            scores = scores[which]
            errors = None if errors is None else errors[which]
        edits = scores.softmax(-1, dtype=torch.float32)
        return edits, 1 - edits[:, KEEP_ID] if errors is None else errors.float().sigmoid()


def parse_weights(text: str) -> list[float]:
    """Return the weights of an ensemble from numbers separated by commas."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(
            f"--edit-weights is {text!r}; expected numbers separated by commas, such as 2,1."
        ) from None


def _normalize(weights: Sequence[float], models: int) -> list[float]:
    """Return the weights divided by their sum. Raise ConfigurationError if they are invalid."""
    if len(weights) != models:
        raise ConfigurationError(
            f"--edit-weights has {len(weights)} {'number' if len(weights) == 1 else 'numbers'} for "
            f"{models} {'model' if models == 1 else 'models'}; expected a number for each model."
        )
    total = sum(weights)
    if not (min(weights) >= 0 and 0 < total < float("inf")):
        numbers = ",".join(f"{weight:g}" for weight in weights)
        raise ConfigurationError(
            f"--edit-weights is {numbers}; expected numbers of 0 or more, with a sum above 0."
        )
    return [weight / total for weight in weights]


class EditCandidateFinder:
    """Function that returns the candidate edits of sentences, with windows for long sentences."""

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Any,
        edits: EditDictionary,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Use one edit tagger, or an ensemble with the same dictionaries.

        Args:
            models: the edit taggers.
            dictionary: the token dictionary.
            edits: the edit dictionary.
            weights: a weight for each model. None: equal weights.
        """
        positions = min(model.max_subwords + 2 for model in models)
        self.windows = Windows.of_model(positions)
        self.words = [model.subwords for model in models if model.subwords is not None]
        self.probabilities = EditProbabilities(models, dictionary, weights)
        self.possible = PossibleEdits(edits, dictionary)

    def __call__(self, text: Spans, device: torch.device) -> EditCandidates:
        """Return the candidate edits at each position of sentences that begin with <s>."""
        windows = self.windows.split(text, self._subword_counts(text.ids))
        order = np.argsort(-windows.text.lengths, kind="stable")
        batch_size = max(len(text), MIN_WINDOWS)
        columns = []
        for begin in range(0, len(order), batch_size):
            batch = windows.select(order[begin : begin + batch_size])
            probabilities = self.probabilities(batch.text, batch.used_positions, device)
            columns.append(
                best_candidates(*probabilities, self.possible, batch.ids, batch.sentence_starts)
            )
        positions = Spans(np.arange(len(text.ids)), windows.counts).select(order).ids
        ordered = np.empty((len(columns[0]), len(text.ids)), np.float32)
        ordered[:, positions] = torch.cat(columns, dim=1).cpu().numpy()
        kept, deleted, other, labels, errors = ordered
        return EditCandidates(kept, deleted, other, labels.astype(np.int64), errors)

    def _subword_counts(self, ids: Ids) -> Ids | None:
        """Return the number of subwords of each token, the maximum over the models.

        Return None if no model reads subwords.
        """
        if not self.words:
            return None
        counts: Ids = np.max([words.lengths(ids) for words in self.words], axis=0)
        return counts
