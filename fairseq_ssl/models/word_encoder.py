"""Pretrained encoders for edit taggers, and conversion of subword states to word states."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.checkpoints.bert import initial_weights
from fairseq_ssl.checkpoints.pretrained import EncoderFiles, longest
from fairseq_ssl.edits.subwords import SubwordBatch
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.edit_layers import EditStates, EncodedTokens, Words, WordSpans

logger = logging.getLogger(__name__)

UNLIMITED = 10**9


class EncodedWords(NamedTuple):
    """Encoder output for the words in a batch."""

    tokens: EncodedTokens
    words: Words
    own: Tensor | None
    """[words, dim], embeddings of the words, or None in an unfactorized model."""
    hidden: Tensor
    """[words, dim], the states h of the words."""


def word_spans(batch: SubwordBatch) -> WordSpans:
    """Return the indices of each word's first and last subword, and a mask, False at padding."""
    last = batch.first + batch.counts.clamp(min=1) - 1
    return WordSpans(batch.first, last, batch.counts > 0)


def first_states(states: Tensor, batch: SubwordBatch) -> Tensor:
    """Return the state of each word's first subword [words, dim], without padding.

    Args:
        states: [batch, time, dim], subword states.
        batch: the subwords, with the index of each word's first subword.
    """
    return states.flatten(0, 1)[_first(batch)]


def sum_embeddings(embeddings: Tensor, batch: SubwordBatch) -> Tensor:
    """Return the sum of each word's subword embeddings [words, dim], without padding."""
    index, _, counts = _subwords(batch)
    ids = batch.ids.flatten()[index]
    return functional.embedding_bag(ids, embeddings, counts.cumsum(0) - counts, mode="sum")


def _first(batch: SubwordBatch) -> Tensor:
    """Return the index of each word's first subword in the flattened batch, without padding."""
    rows = torch.arange(len(batch.ids), device=batch.ids.device) * batch.ids.size(1)
    index: Tensor = (batch.first + rows.unsqueeze(1))[batch.counts > 0]
    return index


def _subwords(batch: SubwordBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return each subword's index in the flattened batch, its word index, and all word lengths."""
    counts = batch.counts[batch.counts > 0]
    word = torch.repeat_interleave(counts)
    within = torch.arange(len(word), device=word.device) - (counts.cumsum(0) - counts)[word]
    return _first(batch)[word] + within, word, counts


class PretrainedEncoder(nn.Module):
    """An encoder from Hugging Face transformers with the interface of `EditEncoder`."""

    factorized = False

    def __init__(self, model: Any, padding: int) -> None:
        """Wrap a model loaded with `transformers.AutoModel`. `padding` is the padding id."""
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

    def forward(self, tokens: Tensor, words: WordSpans | None = None) -> EditStates:
        """Return the states for ids [batch, time], padded on the right. `words` is ignored."""
        return EditStates(self.encode_tokens(tokens).states, None, None)

    def encode_tokens(self, tokens: Tensor) -> EncodedTokens:
        """Return the states for ids [batch, time], padded on the right."""
        is_padding = tokens.eq(self.padding)
        mask = (~is_padding).to(self.tokens.weight.dtype)
        output = self.model(input_ids=tokens, attention_mask=mask)
        return EncodedTokens(output.last_hidden_state, [], is_padding)


def build_pretrained_encoder(cfg: Any, encoder: EncoderFiles, padding: int) -> PretrainedEncoder:
    """Load the encoder from `cfg.edit_init`, or build it with random weights if this is None."""
    if not cfg.edit_unfactorized:
        kind = encoder.config.get("model_type")
        raise ConfigurationError(
            f"A factorized edit_tagger cannot use the encoder {kind!r}. Use BERT or RoBERTa, or "
            "pass --edit-unfactorized."
        )
    if cfg.edit_init is None:
        return PretrainedEncoder(pretrained.of_config(dict(encoder.config)), padding)
    return PretrainedEncoder(pretrained.load_model(Path(cfg.edit_init).expanduser()), padding)


def load_pretrained_weights(name: str, model: Any, task: Any) -> None:
    """Initialize `model` from a BERT or RoBERTa model in the folder `name`."""
    folder = Path(name).expanduser()
    symbols = task.source_dictionary.symbols
    if model.subwords is not None:
        symbols = model.subwords.tokenizer.symbols(model.subwords.vocabulary)
    state = model.state_dict()
    for key, weight in initial_weights(folder, model.cfg, symbols, state).items():
        state[key].copy_(weight)
    logger.info(f"Initialized the encoder from {folder}")
