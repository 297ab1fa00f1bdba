"""States of words from the subwords of a pretrained encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.checkpoints.pretrained import longest
from fairseq_ssl.data.word_subwords import SubwordBatch
from fairseq_ssl.modules.edit_layers import EditStates, WordSpans

POOLINGS = ("first", "mean")
UNLIMITED = 10**9


def word_spans(batch: SubwordBatch) -> WordSpans:
    """Return the indices of the first and the last subword of each word, both 0 for padding."""
    return WordSpans(batch.first, batch.first + batch.counts.clamp(min=1) - 1)


def pool_words(states: Tensor, batch: SubwordBatch, pooling: str) -> Tensor:
    """Return the state of each word [words, dim], without padding.

    Args:
        states: [batch, time, dim], of subwords.
        batch: the subwords.
        pooling: `first` for the first subword, `mean` for the mean of all subwords.
    """
    if pooling == "first":
        return states.flatten(0, 1)[_first(batch)]
    index, word, counts = _subwords(batch)
    sums = states.new_zeros(len(counts), states.size(-1))
    sums = sums.index_add(0, word, states.flatten(0, 1)[index])
    return sums / counts.unsqueeze(-1)


def sum_embeddings(embeddings: Tensor, batch: SubwordBatch) -> Tensor:
    """Return the sum of the subword embeddings of each word [words, dim], without padding."""
    index, _, counts = _subwords(batch)
    ids = batch.ids.flatten()[index]
    return functional.embedding_bag(ids, embeddings, counts.cumsum(0) - counts, mode="sum")


def _first(batch: SubwordBatch) -> Tensor:
    """Return the index in the flattened batch of each word's first subword."""
    rows = torch.arange(len(batch.ids), device=batch.ids.device) * batch.ids.size(1)
    return (batch.first + rows.unsqueeze(1))[batch.counts > 0]


def _subwords(batch: SubwordBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the flat index and the word index of each subword, and the subword counts of words."""
    counts = batch.counts[batch.counts > 0]
    word = torch.repeat_interleave(counts)
    within = torch.arange(len(word), device=word.device) - (counts.cumsum(0) - counts)[word]
    return _first(batch)[word] + within, word, counts


class PretrainedEncoder(nn.Module):
    """An encoder of Hugging Face transformers with the interface of `EditEncoder`."""

    factorized = False

    def __init__(self, model: Any, padding: int) -> None:
        """Wrap a model of `transformers.AutoModel`. `padding` is the padding id."""
        super().__init__()
        self.model = model
        self.padding = padding
        self.dim = int(model.config.hidden_size)
        positions = longest(model)
        self.max_positions = positions if positions > 0 else UNLIMITED

    @property
    def tokens(self) -> nn.Embedding:
        """The subword embeddings."""
        embeddings: nn.Embedding = self.model.get_input_embeddings()
        return embeddings

    @property
    def layers(self) -> nn.Module:
        """The wrapped model, whose linear layers `EditTagger.quantize_` quantizes."""
        module: nn.Module = self.model
        return module

    def forward(self, tokens: Tensor, words: WordSpans | None = None) -> EditStates:
        """Return the states of ids [batch, time], padded on the right. `words` is ignored."""
        mask = tokens.ne(self.padding).to(self.tokens.weight.dtype)
        output = self.model(input_ids=tokens, attention_mask=mask)
        return EditStates(output.last_hidden_state, None, None)
