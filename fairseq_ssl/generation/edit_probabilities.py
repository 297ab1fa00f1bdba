"""Edit probabilities of sentences, those of long sentences from overlapping windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.dictionary import KEEP_ID
from fairseq_ssl.errors import ConfigurationError


@dataclass(frozen=True)
class WindowBatch:
    """What a model is to see, and which positions of it count.

    The positions that count are those of the text, each once, in its order.
    """

    text: Spans
    """The ids of each piece, the start first."""
    begins: Ids
    """The first position of each that counts: 0, the start, only where a sentence begins."""
    ends: Ids
    """The position after the last that counts."""

    @property
    def counts(self) -> Ids:
        """How many positions of each piece count."""
        return self.ends - self.begins

    def select(self, which: Ids) -> WindowBatch:
        """Return these pieces, in this order."""
        return WindowBatch(self.text.select(which), self.begins[which], self.ends[which])

    @cached_property
    def wanted(self) -> Ids | None:
        """The positions that count, among those of all pieces end to end; None: all."""
        if int(self.counts.sum()) == len(self.text.ids):
            return None
        counts = self.counts
        first = np.repeat(self.text.starts + self.begins - _starts(counts), counts)
        found: Ids = first + np.arange(len(first))
        return found

    @cached_property
    def ids(self) -> Ids:
        """The ids of the positions that count."""
        found: Ids = self.text.ids if self.wanted is None else self.text.ids[self.wanted]
        return found

    @cached_property
    def sentence_starts(self) -> Ids:
        """Where, among the positions that count, a sentence starts."""
        found: Ids = _starts(self.counts)[self.begins == 0]
        return found


@dataclass(frozen=True)
class Windows:
    """Cuts sentences into windows of equal length; each token counts where it is most inside."""

    size: int
    """Tokens in a window, without the start and the end that each has."""
    overlap: int
    """Tokens that two windows in a row share."""

    @classmethod
    def of_model(cls, positions: int, overlap: int | None) -> Windows:
        """Make them for a model of so many positions; by default a quarter of each overlaps."""
        size = positions - 2
        if size < 1:
            raise ConfigurationError(
                f"The model sees {positions} positions; expected 3 or more, for a start, a token "
                "and an end. See --max-source-positions."
            )
        if overlap is None:
            overlap = size // 4
        if not 0 <= overlap < size:
            raise ConfigurationError(
                f"--edit-window-overlap is {overlap}; expected 0 or more, and less than the {size} "
                "tokens of a window."
            )
        return cls(size, overlap)

    def cut(self, text: Spans) -> WindowBatch:
        """Cut sentences, each with its start first."""
        tokens = text.lengths - 1
        if tokens.max(initial=0) <= self.size:
            return WindowBatch(text, np.zeros_like(tokens), text.lengths)
        step = self.size - self.overlap
        counts = 1 + -(-np.maximum(tokens - self.size, 0) // step)
        sentence = np.repeat(np.arange(len(text)), counts)
        number = np.arange(len(sentence)) - np.repeat(_starts(counts), counts)
        lengths = np.minimum(tokens, self.size)[sentence]
        first = np.minimum(number * step, tokens[sentence] - lengths)
        index = np.repeat(text.starts[sentence] + 1 + first - _starts(lengths), lengths)
        pieces = Spans(text.ids[index + np.arange(len(index))], lengths)
        begins, ends = self._inner(first, number == 0, tokens[sentence])
        return WindowBatch(pieces.with_first(text.ids[:1]), begins - first + 1, ends - first + 1)

    def _inner(self, first: Ids, is_first: Ids, tokens: Ids) -> tuple[Ids, Ids]:
        """Return which tokens of its sentence count in each window; the start is number -1.

        Where two windows overlap the border is in the middle: from there on a token is farther
        from the begin of the second than from the end of the first.
        """
        previous = np.roll(first, 1)
        begins = np.where(is_first, -1, (previous + self.size - 1 + first) // 2 + 1)
        ends = np.where(np.roll(is_first, -1), tokens, np.roll(begins, -1))
        return begins, ends


def _starts(lengths: Ids) -> Ids:
    starts: Ids = np.cumsum(lengths) - lengths
    return starts


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
        return torch.from_numpy(whole.pad(self.pad, False, 0, 1))

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
