"""Base class for engines that run edit taggers, with windows, batches and ensembles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fairseq_ssl.edits.application import TopEdits
from fairseq_ssl.edits.subwords import WordSubwords
from fairseq_ssl.edits.windows import WindowBatch, Windows
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.text.spans import Ids, Spans

MIN_WINDOWS = 16
"""Minimum batch size in windows. With more sentences, the batch size is the sentence count."""
TOP = 8
"""Number of edits besides keep that an engine returns for each position, most probable first."""


class TaggerEngine(ABC):
    """Callable that scores edits with one edit tagger or an ensemble (PIE, section 3.1.1).

    Ensemble scores are weighted means. All models must have the same token and label vocabularies.
    Their encoders and subwords can be different.
    """

    def __init__(self, models: Sequence[Any], weights: Sequence[float] | None = None) -> None:
        """Create an engine for one or more models.

        Args:
            models: edit taggers with the attributes `max_subwords` and `subwords`.
            weights: weight of each model, 0 or more; they are normalized (default: equal weights).
        """
        self.models = models
        self.weights = _normalize(weights or [1.0] * len(models), len(models))
        self.subwords: list[WordSubwords] = [
            model.subwords for model in models if model.subwords is not None
        ]
        self._windows = Windows.of_model(min(model.max_subwords + 2 for model in models))

    def __call__(self, text: Spans) -> TopEdits:
        """Return the best edits and their scores at each position. Sentences begin with <s>."""
        windows = self._windows.split(text, self._subword_counts(text.ids))
        order = np.argsort(-windows.text.lengths, kind="stable")
        size = max(len(text), MIN_WINDOWS)
        batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
        scores = [self.score(windows.select(which)) for which in batches]
        positions = Spans(np.arange(len(text.ids)), windows.counts).select(order).ids
        place = np.argsort(positions, kind="stable")
        return TopEdits(*(np.concatenate(field)[place] for field in zip(*scores, strict=True)))

    @abstractmethod
    def score(self, batch: WindowBatch) -> TopEdits:
        """Return the best edits at `batch.used_positions`. The longest windows come first."""

    def mean(self, outputs: Iterable[Sequence[Any]]) -> list[Any]:
        """Return each output's weighted mean over the models. Reuse the first model's arrays."""
        first, *others = self.weights
        parts = iter(outputs)
        means = list(next(parts))
        for mean in means if others else ():
            mean *= first
        for weight, added in zip(others, parts, strict=True):
            for mean, part in zip(means, added, strict=True):
                mean += weight * part
        return means

    def forget_unknown(self) -> None:
        """Discard the cached subwords of out-of-vocabulary words."""
        for subwords in self.subwords:
            subwords.forget_unknown()

    def _subword_counts(self, ids: Ids) -> Ids | None:
        """Return each token's maximum number of subwords over the models.

        Return None if no model reads subwords.
        """
        if not self.subwords:
            return None
        counts: Ids = np.max([subwords.lengths(ids) for subwords in self.subwords], axis=0)
        return counts


def pad_sentences(text: Spans, words: Any) -> Ids:
    """Append </s> to each sentence. Return ids [batch, time], padded on the right.

    <s>, </s> and <pad> within a sentence are replaced with <unk>.

    Args:
        text: sentences, each beginning with <s>.
        words: dictionary that assigned the ids.
    """
    is_symbol = np.isin(text.ids, (words.bos(), words.eos(), words.pad()))
    is_symbol[text.starts] = False
    sentences = Spans(np.where(is_symbol, words.unk(), text.ids), text.lengths)
    rows: Ids = sentences.with_last(words.eos()).pad(words.pad(), False, 0, 1)
    return rows


def _normalize(weights: Sequence[float], models: int) -> list[float]:
    """Divide the weights by their sum. Raise ConfigurationError if they are invalid."""
    if len(weights) != models:
        raise ConfigurationError(
            f"The ensemble has {models} models, but its weights are {_listed(weights)}. Expected "
            "one weight per model."
        )
    total = sum(weights)
    if not (min(weights) >= 0 and 0 < total < float("inf")):
        raise ConfigurationError(
            f"The weights of the ensemble are {_listed(weights)}. Expected finite numbers of 0 or "
            "more, with a sum above 0."
        )
    return [weight / total for weight in weights]


def _listed(weights: Sequence[float]) -> str:
    return ",".join(f"{weight:g}" for weight in weights)
