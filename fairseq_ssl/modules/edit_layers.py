"""Edit-factorized BERT encoder and output layer (PIE, section 2.3.2 and equation 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.edits.application import TopEdits
from fairseq_ssl.edits.dictionary import KEEP_ID
from fairseq_ssl.edits.engine import TOP
from fairseq_ssl.modules.attention import KeysValues, attend_from_units
from fairseq_ssl.modules.functional import INIT_STD, Rows, init_bert_weights, weight_version


@dataclass(frozen=True)
class EncoderSizes:
    """Sizes and options of an `EditEncoder`."""

    vocabulary: int
    layers: int
    dim: int
    inner_dim: int
    heads: int
    positions: int
    dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-12


class WordSpans(NamedTuple):
    """Indices of each word's first and last token, each [batch or 1, words]."""

    first: Tensor
    last: Tensor
    real: Tensor | None = None
    """[batch, words], True at words that are not padding, or None if there is no padding."""


class Words(NamedTuple):
    """The words in a batch, ordered by sentence. Each tensor has the shape [words]."""

    sentence: Tensor
    """Index of the word's sentence."""
    first: Tensor
    """Index of the word's first token in the sentence."""
    last: Tensor
    """Index of the word's last token in the sentence."""

    @classmethod
    def of_spans(cls, spans: WordSpans, batch: int) -> Words:
        """Return the words with the given spans in `batch` sentences, without padding."""
        shape = batch, spans.first.size(1)
        sentence = torch.arange(batch, device=spans.first.device).unsqueeze(1).expand(shape)
        parts = (part.expand(shape).flatten() for part in (sentence, spans.first, spans.last))
        words = cls(*parts)
        return words if spans.real is None else words.select(spans.real.flatten())

    def select(self, which: Tensor) -> Words:
        """Return the words selected with `which`, a mask or ascending indices."""
        return Words(*(part[which] for part in self))


class EditStates(NamedTuple):
    """The encoder output: tokens [batch, time, dim], and edit units [batch, words, dim]."""

    tokens: Tensor
    """States of the tokens (h in PIE)."""
    replacing: Tensor | None
    """States that score replacements (r in PIE), or None in an unfactorized encoder."""
    following: Tensor | None
    """States that score insertions after tokens (a in PIE), or None in an unfactorized encoder."""


class EditLogits(NamedTuple):
    """Logits for a batch, concatenated over sentences. Each <s> and each token is a position."""

    edits: Tensor
    """[positions, labels], logits of the edits."""
    errors: Tensor | None
    """[positions], logits of the error detection head, or None without this head."""


def edit_probabilities(edits: Tensor, errors: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the probabilities of edits [positions, labels] and errors [positions], in float32.

    Without error logits, the error probability is 1 minus the probability of keep.
    """
    probabilities = edits.softmax(-1, dtype=torch.float32)
    if errors is None:
        return probabilities, 1 - probabilities[:, KEEP_ID]
    return probabilities, errors.float().sigmoid()


def top_edits(edits: Tensor, errors: Tensor) -> TopEdits:
    """Return each position's keep and error probabilities, and its `TOP` most probable other edits.

    Args:
        edits: [positions, labels], edit probabilities, which this function overwrites.
        errors: [positions], error probabilities.
    """
    kept = edits[:, KEEP_ID].clone()
    edits[:, KEEP_ID] = -torch.inf
    top = edits.topk(min(TOP, edits.size(1) - 1))
    # Use one tensor, so that a single transfer from a GPU is enough.
    columns = torch.cat([torch.stack([kept, errors], 1), top.values, top.indices.float()], 1)
    kept_array, error_array, *best = columns.cpu().numpy().T
    probabilities, labels = np.split(np.stack(best, 1), 2, axis=1)
    return TopEdits(kept_array, error_array, labels.astype(np.int64), probabilities)


class EditLayer(nn.Module):
    """A BERT layer for tokens and edit units (r and a). A unit is visible only to itself."""

    def __init__(self, sizes: EncoderSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.attention_dropout = sizes.attention_dropout
        self.in_proj = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.out_proj = nn.Linear(sizes.dim, sizes.dim)
        self.attention_norm = nn.LayerNorm(sizes.dim, sizes.epsilon)
        self.fc1 = nn.Linear(sizes.dim, sizes.inner_dim)
        self.fc2 = nn.Linear(sizes.inner_dim, sizes.dim)
        self.final_norm = nn.LayerNorm(sizes.dim, sizes.epsilon)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, states: Tensor, rows: Rows, mask: Tensor | None) -> tuple[Tensor, KeysValues]:
        """Return the layer's output [tokens, dim], and the keys and values of the tokens.

        Args:
            states: [tokens, dim], the output of the layer below.
            rows: positions of the tokens in the batch.
            mask: [batch, 1, 1, time], True at tokens that are not padding, or None for no padding.
        """
        query, own = self._project(states, rows)
        attended = functional.scaled_dot_product_attention(query, *own, mask, self._dropout)
        return self._transform(states, attended, rows), own

    def transform_units(
        self, states: Tensor, rows: Rows, tokens: KeysValues, mask: Tensor
    ) -> Tensor:
        """Return the layer's output [units, dim] for edit units.

        Args:
            states: [units, dim], the output of the layer below.
            rows: positions of the units in the batch.
            tokens: keys and values of the tokens in this layer.
            mask: [batch, 1, units, time + 1], as in `attend_from_units`.
        """
        query, own = self._project(states, rows)
        attended = attend_from_units(query, own, tokens, mask, self._dropout)
        return self._transform(states, attended, rows)

    @property
    def _dropout(self) -> float:
        return self.attention_dropout if self.training else 0.0

    def _project(self, states: Tensor, rows: Rows) -> tuple[Tensor, KeysValues]:
        """Return queries, keys and values, each [batch, heads, time, dim / heads]."""
        projected = rows.pad(self.in_proj(states))
        shape = (rows.batch, rows.time, 3, self.heads, states.size(-1) // self.heads)
        query, key, value = projected.view(shape).permute(2, 0, 3, 1, 4)
        return query, KeysValues(key, value)

    def _transform(self, states: Tensor, attended: Tensor, rows: Rows) -> Tensor:
        """Return the layer's output [rows, dim] from its attention output."""
        attended = rows.pack(attended.transpose(1, 2).flatten(2))
        states = self.attention_norm(states + self.dropout(self.out_proj(attended)))
        inner = self.fc2(functional.gelu(self.fc1(states)))
        normed: Tensor = self.final_norm(states + self.dropout(inner))
        return normed


@dataclass(frozen=True)
class EncodedTokens:
    """Token states of a batch, with the keys and values to which edit units attend."""

    states: Tensor
    """[batch, time, dim], the output of the last layer."""
    keys_values: list[KeysValues]
    """Keys and values of the tokens in each layer. Empty in an unfactorized encoder."""
    is_padding: Tensor
    """[batch, time], True at padding."""

    @property
    def positions(self) -> Tensor:
        """[batch, time], the position of each token in its sentence, starting at 0."""
        return (~self.is_padding).cumsum(1).sub(1).clamp(min=0)


class EditEncoder(nn.Module):
    """A BERT encoder with two edit units per word, for replacement and insertion.

    Tokens and units share all weights. Tokens attend only to tokens, and a unit attends to tokens
    and to itself, so tokens are computed first. If `factorized` is False, there are no units.
    """

    def __init__(self, sizes: EncoderSizes, padding: int, factorized: bool = True) -> None:
        super().__init__()
        self.padding = padding
        self.factorized = factorized
        self.dim = sizes.dim
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.dim, padding_idx=padding)
        self.positions = nn.Embedding(sizes.positions, sizes.dim)
        self.mask = nn.Parameter(torch.empty(sizes.dim))
        self.norm = nn.LayerNorm(sizes.dim, sizes.epsilon)
        self.layers = nn.ModuleList(EditLayer(sizes) for _ in range(sizes.layers))
        self.dropout = nn.Dropout(sizes.dropout)
        self.apply(init_bert_weights)
        nn.init.trunc_normal_(self.mask, std=INIT_STD)
        # DistributedDataParallel fails on a trained weight without a gradient.
        self.mask.requires_grad_(factorized)

    def forward(self, tokens: Tensor, spans: WordSpans | None = None) -> EditStates:
        """Return the states of the tokens and, in a factorized encoder, of the edit units.

        Args:
            tokens: [batch, time], ids, padded on either side.
            spans: the words that get edit units (default: every token is a word). Spans require ids
                that are padded on the right.
        """
        encoded = self.encode_tokens(tokens)
        if not self.factorized:
            return EditStates(encoded.states, None, None)
        if spans is None:
            columns = torch.arange(tokens.size(1), device=tokens.device)[None]
            spans = WordSpans(columns, columns)
        words, shape = Words.of_spans(spans, tokens.size(0)), (tokens.size(0), spans.first.size(1))
        if spans.real is None:
            rows, places = Rows(*shape, None), Rows(shape[0], 2 * shape[1], None)
        else:
            rows, places = Rows.of_mask(spans.real), None
        units = self.encode_units(encoded, words, places)
        return EditStates(encoded.states, *(rows.pad(unit) for unit in units))

    def encode_tokens(self, tokens: Tensor) -> EncodedTokens:
        """Return the states of token ids [batch, time], padded on either side."""
        is_padding = tokens.eq(self.padding)
        positions = (~is_padding).cumsum(1).sub(1).clamp(min=0)
        rows = Rows.of_mask(~is_padding)
        is_padded = torch.compiler.is_compiling() or rows.index is not None
        mask = ~is_padding[:, None, None, :] if is_padded else None
        # Embed before packing, because classifiers perturb the embeddings of a padded batch.
        embedded = self.tokens(tokens) + self.positions(positions)
        states = self.dropout(self.norm(rows.pack(embedded)))
        keys_values = []
        for layer in self.layers:
            states, own = layer(states, rows, mask)
            if self.factorized:
                keys_values.append(own)
        return EncodedTokens(rows.pad(states), keys_values, is_padding)

    def encode_units(
        self, encoded: EncodedTokens, words: Words, rows: Rows | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the states of the words' edit units r and a, each [words, dim].

        r has the position embedding of the word's first token. a has the mean of the position
        embeddings of the word's last token and the next token.

        Args:
            encoded: the output of `encode_tokens`.
            words: the words whose units are computed.
            rows: positions of the units in the batch, r before a for each word (default: computed
                from the words).
        """
        sentence, first, last = words
        positions = encoded.positions
        first, last = positions[sentence, first], positions[sentence, last]
        after = (last + 1).clamp(max=self.positions.num_embeddings - 1)
        between = (self.positions(last) + self.positions(after)) / 2
        units = torch.stack([self.positions(first), between], dim=1) + self.mask
        states = self.dropout(self.norm(units.flatten(0, 1)))
        if rows is None:
            rows = Rows.of_sentences(sentence.repeat_interleave(2), encoded.states.size(0))
        mask = _unit_mask(words, encoded.is_padding, rows)
        for layer, tokens in zip(self.layers, encoded.keys_values, strict=True):
            assert isinstance(layer, EditLayer)
            states = layer.transform_units(states, rows, tokens, mask)
        replacing, following = states.view(-1, 2, self.dim).unbind(1)
        return replacing, following


def _unit_mask(words: Words, is_padding: Tensor, rows: Rows) -> Tensor:
    """Return a mask [batch, 1, units, time + 1], True where a unit may attend.

    A unit r may not attend to the tokens of its word. No unit may attend to padding.

    Args:
        words: the words. Each word has two units, r and a.
        is_padding: [batch, time], True at padding.
        rows: positions of the units in the batch.
    """
    columns = torch.arange(is_padding.size(1), device=is_padding.device)
    own = (columns >= words.first.unsqueeze(-1)) & (columns <= words.last.unsqueeze(-1))
    hidden = torch.stack([own, torch.zeros_like(own)], dim=1).flatten(0, 1)
    tokens = ~(rows.pad(hidden) | is_padding.unsqueeze(1))
    return functional.pad(tokens, (0, 1), value=True).unsqueeze(1)


class EditScores(nn.Module):
    """Output layer for keep, delete, M appends, M replacements and K transforms (PIE, equation 3).

    theta is a weight vector, H the transform in BERT's head, phi the embedding, and x_i the token:

        keep            theta . h + phi(x_i) . H(h)
        append of w     theta . h + phi(x_i) . H(h) + phi(w) . H(a)
        replace with w  theta . h + (phi(w) - phi(x_i)) . H(r)
        delete          theta . h
        transform       theta . h + phi(x_i) . H(h)

    phi of a q-gram is the sum over its tokens. H, which reuses the pre-trained masked language
    model head, is in the authors' code but not in the paper.

    With `gap_inserts` (table 6, row 4), a label consists of two decisions: the edit of a token, and
    the insertion or no insertion after it. The label's score is the sum of their log-probabilities.
    No label combines a replacement with an insertion, so a token that needs both takes two rounds.
    """

    grams: Tensor
    cached_grams: Tensor | None
    cached_version: tuple[int, int] | None = None

    def __init__(
        self,
        dim: int,
        labels: int,
        grams: list[list[int]],
        padding: int,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
        factorized: bool = True,
        gap_inserts: bool = False,
    ) -> None:
        """Build the output layer for an edit dictionary.

        Args:
            dim: dimension of the states.
            labels: number of labels in the edit dictionary, including keep and delete.
            grams: token ids of each q-gram that can be appended. In a factorized model, the same
                q-grams can replace a token.
            padding: id that pads shorter q-grams. The embedding of this id is not added.
            dropout: dropout probability of h in theta . h.
            epsilon: epsilon of the layer norm.
            factorized: whether to add the terms after theta . h.
            gap_inserts: whether to predict insertions separately from edits of tokens.
        """
        super().__init__()
        self.factorized = factorized
        self.padding = padding
        self.register_buffer("cached_grams", None, persistent=False)
        self.edits = nn.Linear(dim, labels)
        self.dropout = nn.Dropout(dropout)
        self.appends = slice(2, 2 + len(grams))
        self.no_insert = nn.Linear(dim, 1) if gap_inserts else None
        if factorized:
            self.transform = nn.Linear(dim, dim)
            self.transform_norm = nn.LayerNorm(dim, epsilon)
            max_length = max(map(len, grams), default=1)
            rows = [gram + [padding] * (max_length - len(gram)) for gram in grams]
            self.register_buffer("grams", torch.tensor(rows).view(len(grams), max_length).long())
        self.apply(init_bert_weights)

    def forward(
        self,
        embeddings: Tensor,
        own: Tensor | None,
        states: Tensor,
        replacing: Tensor | None,
        following: Tensor | None,
    ) -> Tensor:
        """Return the logits [n, labels] of all labels for n tokens.

        Args:
            embeddings: [vocabulary, dim], the token embeddings.
            own: [n, dim], embeddings of the tokens to edit. Required if factorized.
            states: [n, dim], the token states h.
            replacing: [n, dim], the replacement states r. Required if factorized.
            following: [n, dim], the insertion states a. Required if factorized.
        """
        if not self.factorized:
            scores: Tensor = self.edits(self.dropout(states))
            return scores if self.no_insert is None else self._joint_log_probs(scores, states)
        assert own is not None
        assert replacing is not None
        assert following is not None
        grams = self.gram_embeddings(embeddings)
        kept = (own * self._head(states)).sum(-1, keepdim=True)
        replacing, following = self._head(replacing), self._head(following)
        replaced = (own * replacing).sum(-1, keepdim=True)
        states = self.dropout(states)
        # Compute blocks of labels, so that no other tensor is as large as the logits.
        sizes = [1, 1, len(grams), len(grams), len(self.edits.weight) - 2 - 2 * len(grams)]
        thetas = zip(
            *(torch.split(parameter, sizes) for parameter in self.edits.parameters()), strict=True
        )
        keep, delete, append, replace, rest = (
            functional.linear(states, *theta) for theta in thetas
        )
        append = torch.addmm(append, following, grams.T)
        if self.no_insert is None:
            append = append + kept
        replace = torch.addmm(replace, replacing, grams.T) - replaced
        scores = torch.cat([keep + kept, delete, append, replace, rest + kept], dim=1)
        return scores if self.no_insert is None else self._joint_log_probs(scores, following)

    def _joint_log_probs(self, scores: Tensor, gaps: Tensor) -> Tensor:
        """Return the log-probability of each label [n, labels], the sum over its two decisions.

        Args:
            scores: [n, labels], logits.
            gaps: [n, dim], states from which the logit for no insertion is computed.
        """
        assert self.no_insert is not None
        appends, dtype = self.appends, torch.promote_types(scores.dtype, torch.float32)
        tokens = torch.cat([scores[:, : appends.start], scores[:, appends.stop :]], dim=1)
        tokens = tokens.log_softmax(-1, dtype=dtype)
        inserted = torch.cat([self.no_insert(gaps).to(scores), scores[:, appends]], dim=1)
        inserted = inserted.log_softmax(-1, dtype=dtype)
        nothing, grams = inserted[:, :1], inserted[:, 1:]
        kept = tokens[:, :1]
        before, after = tokens[:, : appends.start], tokens[:, appends.start :]
        return torch.cat([before + nothing, kept + grams, after + nothing], dim=1)

    def gram_embeddings(self, embeddings: Tensor) -> Tensor:
        """Return each q-gram's embedding [M, dim]. In evaluation mode, use the cache, if any."""
        if self.training:  # fairseq's optimizers change weights through `data`
            self.cached_grams = None
        if self.cached_grams is None:
            return self._embed_grams(embeddings)
        # An export to ONNX traces tensors without data.
        is_traced = torch.compiler.is_compiling()
        if not is_traced and weight_version(embeddings) != self.cached_version:
            self.cache_grams(embeddings)
        return self.cached_grams

    def _embed_grams(self, embeddings: Tensor) -> Tensor:
        embedded = functional.embedding(self.grams, embeddings, self.padding)
        return embedded.masked_fill(self.grams.eq(self.padding).unsqueeze(-1), 0).sum(1)

    def cache_grams(self, embeddings: Tensor) -> None:
        """Cache the q-gram embeddings for inference. An unfactorized model has none."""
        if self.factorized:
            with torch.no_grad():
                self.cached_grams = self._embed_grams(embeddings)
            self.cached_version = weight_version(embeddings)

    def _head(self, states: Tensor) -> Tensor:
        """Return H(states) [n, dim], the transform in BERT's masked language model head."""
        transformed: Tensor = self.transform_norm(functional.gelu(self.transform(states)))
        return transformed
