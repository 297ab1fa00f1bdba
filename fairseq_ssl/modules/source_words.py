"""The words of a batch of sources, those that the vocabulary lacks among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class SourceWords:
    """Sources whose unknown words have numbers that a distribution can have columns for.

    Data names a word that is not among the first `vocabulary` ones by any larger id. Here the
    first such word of a sentence is `vocabulary`, the next other one `vocabulary` + 1, ...
    """

    tokens: Tensor
    """[batch, source time], the words by these numbers."""
    first: Tensor
    """[batch, source time], where in the sentence the same word stands first."""
    unknown: Tensor
    """[batch, most unknown words], the ids of the data for those numbers; -1 for none."""
    vocabulary: int

    @classmethod
    def of(cls, ids: Tensor, vocabulary: int) -> SourceWords:
        """Number the words of `ids` [batch, source time], as the data has them.

        What is numbered already stays as it is.
        """
        first = first_positions(ids)
        beyond = ids >= vocabulary
        starts = beyond & (first == torch.arange(ids.size(1), device=ids.device))
        rank = (starts.cumsum(1) - 1).gather(1, first)
        tokens = torch.where(beyond, rank + vocabulary, ids)
        most = int(starts.sum(1).max()) if ids.numel() else 0
        unknown = ids.new_full((ids.size(0), most + 1), -1)
        # what is known falls into one more column, which is then dropped
        unknown.scatter_(1, rank.masked_fill(~beyond, most), ids)
        return cls(tokens, first, unknown[:, :most], vocabulary)

    @property
    def width(self) -> int:
        """Return how many words can be written: the vocabulary and the unknown words."""
        return self.vocabulary + self.unknown.size(1)

    def numbered(self, ids: Tensor, unk: int) -> Tensor:
        """Return `ids` [batch, time] of the data by these numbers; `unk` for words not there."""
        beyond = ids >= self.vocabulary
        if not self.unknown.size(1):
            return ids.masked_fill(beyond, unk)
        same = ids.unsqueeze(2) == self.unknown.unsqueeze(1)
        rank = same.byte().argmax(2) + self.vocabulary
        return torch.where(beyond, rank.masked_fill(~same.any(2), unk), ids)

    def named(self, tokens: Tensor, sentence: int) -> Tensor:
        """Return `tokens` [time], written for one sentence, by the ids of the data."""
        beyond = tokens >= self.vocabulary
        rank = (tokens - self.vocabulary).clamp(min=0)
        if not bool(beyond.any()):
            return tokens
        return torch.where(beyond, self.unknown[sentence][rank], tokens)

    def of_rows(self, rows: Tensor) -> SourceWords:
        """Return those of the sentences that `rows` [new batch] names; the width stays."""
        return replace(
            self,
            tokens=self.tokens.index_select(0, rows),
            first=self.first.index_select(0, rows),
            unknown=self.unknown.index_select(0, rows),
        )


def first_positions(ids: Tensor) -> Tensor:
    """Return for each place of `ids` [batch, time] where in its row the same id stands first."""
    ordered, places = ids.sort(dim=1, stable=True)
    place = torch.arange(ids.size(1), device=ids.device).expand_as(ids)
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    # in order, an id's first place is where its run begins
    run = place.masked_fill(~begins, 0).cummax(1).values
    return torch.empty_like(ids).scatter_(1, places, places.gather(1, run))
