"""Edit-factorized BERT encoder and output layer (PIE, section 2.3.2 and equation 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.attention import KeysValues

INIT_STD = 0.02
"""Standard deviation of initial weights, as in BERT."""


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
    """Indices of the first and the last token of each word, each [batch or 1, words]."""

    first: Tensor
    last: Tensor


class EditStates(NamedTuple):
    """The encoder output, each tensor [batch, time, dim]."""

    tokens: Tensor
    """h in PIE, the states of the tokens."""
    replacing: Tensor | None
    """r in PIE, which scores replacements of each token. None in an unfactorized encoder."""
    following: Tensor | None
    """a in PIE, which scores insertions after each token. None in an unfactorized encoder."""


class EditLogits(NamedTuple):
    """Logits of a batch, concatenated over the sentences. Positions are <s> and the tokens."""

    edits: Tensor
    """[positions, labels], logits of the edits."""
    errors: Tensor | None
    """[positions], logits of the error detection head. None without such a head."""


class EditLayer(nn.Module):
    """A BERT layer for tokens and edit units (r and a). No other position attends to a unit."""

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

    def forward(
        self, states: Tensor, time: int, mask: Tensor | None, unit_mask: Tensor | None
    ) -> Tensor:
        """Return the layer's output.

        Args:
            states: [batch, time + units, dim], tokens first.
            time: number of tokens.
            mask: [batch, 1, 1, time], True at tokens that are not padding. None: no padding.
            unit_mask: [batch or 1, 1, units, time + 1], True where a unit attends to a token or,
                in the last column, to itself.
        """
        attended = self._attend(states, time, mask, unit_mask)
        states = self.attention_norm(states + self.dropout(self.out_proj(attended)))
        inner = self.fc2(functional.gelu(self.fc1(states)))
        normed: Tensor = self.final_norm(states + self.dropout(inner))
        return normed

    def _attend(
        self, states: Tensor, time: int, mask: Tensor | None, unit_mask: Tensor | None
    ) -> Tensor:
        batch, length, dim = states.shape
        shape = (batch, length, 3, self.heads, dim // self.heads)
        query, key, value = self.in_proj(states).view(shape).permute(2, 0, 3, 1, 4)
        tokens = KeysValues(key[:, :, :time], value[:, :, :time])
        dropout = self.attention_dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            query[:, :, :time], *tokens, mask, dropout
        )
        if length > time:
            own = KeysValues(key[:, :, time:], value[:, :, time:])
            units = attend_from_units(query[:, :, time:], own, tokens, unit_mask, dropout)
            attended = torch.cat([attended, units], dim=2)
        return attended.transpose(1, 2).reshape(batch, length, dim)


def attend_from_units(
    query: Tensor, own: KeysValues, tokens: KeysValues, mask: Tensor | None, dropout: float
) -> Tensor:
    """Return the attention output of the units [batch, heads, units, dim / heads].

    Each unit attends to all tokens and to itself, with time + 1 scores.

    Args:
        query: [batch, heads, units, dim / heads], queries of the units.
        own: keys and values of the units, of the same shape.
        tokens: keys and values of the tokens.
        mask: [batch or 1, 1, units, time + 1], True where a unit may attend. The last column is the
            unit itself. None: no mask.
        dropout: dropout probability of attention weights.
    """
    query = query * query.size(-1) ** -0.5
    self_score = (query * own.keys).sum(-1, keepdim=True)
    scores = torch.cat([query @ tokens.keys.transpose(-1, -2), self_score], dim=-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = functional.dropout(scores.softmax(-1), dropout)
    return weights[..., :-1] @ tokens.values + weights[..., -1:] * own.values


class EditEncoder(nn.Module):
    """A BERT encoder with two edit units per token, for replacement and insertion.

    Tokens and units share all weights. Tokens attend to tokens only, a unit attends to tokens and
    to itself. Without `factorized`, there are no units.
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

    def forward(self, tokens: Tensor, words: WordSpans | None = None) -> EditStates:
        """Return the states of the tokens and of the edit units, if any.

        Args:
            tokens: [batch, time], ids, padded on either side.
            words: the words that have edit units, for ids padded on the right. None: every token
                is a word.
        """
        is_padding = tokens.eq(self.padding)
        time = tokens.size(1)
        if words is None:
            columns = torch.arange(time, device=tokens.device)[None]
            words = WordSpans(columns, columns)
        states = self.embed(tokens, is_padding, words)
        # An exported graph cannot depend on the values of its input.
        is_padded = torch.compiler.is_compiling() or bool(is_padding.any())
        mask = ~is_padding[:, None, None, :] if is_padded else None
        unit_mask = _unit_mask(words, time, mask) if self.factorized else None
        for layer in self.layers:
            states = layer(states, time, mask, unit_mask)
        if not self.factorized:
            return EditStates(states, None, None)
        units = words.first.size(1)
        return EditStates(*torch.split(states, [time, units, units], dim=1))

    def embed(self, tokens: Tensor, is_padding: Tensor, words: WordSpans) -> Tensor:
        """Return the input of the first layer [batch, time + 2 * words, dim]: h, then r, then a.

        r has the position of the first token of its word, a the mean of the positions of the last
        token and of the next.

        Args:
            tokens: [batch, time], ids.
            is_padding: [batch, time], True at padding.
            words: the words that have units.
        """
        positions = (~is_padding).cumsum(1).sub(1).clamp(min=0)
        parts = [self.tokens(tokens) + self.positions(positions)]
        if self.factorized:
            first, last = (positions.gather(1, one.expand(tokens.size(0), -1)) for one in words)
            after = (last + 1).clamp(max=self.positions.num_embeddings - 1)
            between = (self.positions(last) + self.positions(after)) / 2
            parts += [self.mask + self.positions(first), self.mask + between]
        states: Tensor = self.dropout(self.norm(torch.cat(parts, dim=1)))
        return states


class TokenEncoder(EditEncoder):
    """A BERT encoder without edit units, with the interface of fairseq's encoders."""

    def __init__(self, sizes: EncoderSizes, padding: int) -> None:
        super().__init__(sizes, padding, factorized=False)
        self.mask.requires_grad_(False)  # unused without units

    @property
    def embed_tokens(self) -> nn.Embedding:
        """The token embeddings, under the name that fairseq's encoders use."""
        return self.tokens

    def forward(  # type: ignore[override]  # the interface of fairseq's encoders
        self, src_tokens: Tensor, src_lengths: Tensor | None = None
    ) -> dict[str, list[Tensor]]:
        """Return fairseq's encoder output for ids [batch, time], padded on either side."""
        states = super().forward(src_tokens).tokens
        mask = src_tokens.eq(self.padding)
        return {"encoder_out": [states.transpose(0, 1)], "encoder_padding_mask": [mask]}

    def max_positions(self) -> int:
        """Return the maximum number of tokens in a sentence."""
        return self.positions.num_embeddings


def _unit_mask(words: WordSpans, time: int, mask: Tensor | None) -> Tensor:
    """Return a mask [batch or 1, 1, units, time + 1], True where a unit may attend.

    The units r may not attend to the tokens of their own word. No unit may attend to padding.
    """
    columns = torch.arange(time, device=words.first.device)
    own = (columns >= words.first.unsqueeze(-1)) & (columns <= words.last.unsqueeze(-1))
    tokens = torch.cat([~own, torch.ones_like(own)], dim=1).unsqueeze(1)
    if mask is not None:
        tokens = tokens & mask
    return functional.pad(tokens, (0, 1), value=True)


def init_bert_weights(module: nn.Module) -> None:
    """Initialize the weights of a module as in BERT."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=INIT_STD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


class EditScores(nn.Module):
    """Output layer for keep, delete, M appends, M replacements, K transforms (equation 3).

    H is the transform of BERT's masked language model head, phi the embeddings, x_i the token:

        keep            theta . h + phi(x_i) . H(h)
        append of w     theta . h + phi(x_i) . H(h) + phi(w) . H(a)
        replace by w    theta . h + (phi(w) - phi(x_i)) . H(r)
        delete          theta . h
        transform       theta . h + phi(x_i) . H(h)

    phi of a q-gram is the sum over its tokens. H is in the authors' code but not in the paper. It
    reuses the pre-trained head.

    With `gap_inserts` (table 6, row 4), a label consists of two decisions: the edit of a token, and
    the insertion after it, if any. Its score is the sum of their log-probabilities. No label has
    both a replacement and an insertion, so that they take two rounds.
    """

    grams: Tensor
    cached_grams: Tensor | None

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
        """Build the output layer of an edit dictionary.

        Args:
            dim: dimension of the states.
            labels: number of labels.
            grams: token ids of each q-gram that can be appended or replace a token.
            padding: id that pads shorter q-grams. Its embedding is not added.
            dropout: dropout probability of the states in theta . h.
            epsilon: epsilon of the layer norm.
            factorized: whether to add the terms after theta . h.
            gap_inserts: whether to decide insertions separately from edits of tokens.
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
        """Return logits [n, labels].

        Args:
            embeddings: [vocabulary, dim], the token embeddings.
            own: [n, dim], embeddings of the tokens to edit; required if factorized.
            states: [n, dim], h.
            replacing: [n, dim], r. Required if factorized.
            following: [n, dim], a. Required if factorized.
        """
        scores: Tensor = self.edits(self.dropout(states))
        if not self.factorized:
            return scores if self.no_insert is None else self._joint_log_probs(scores, states)
        assert own is not None
        assert replacing is not None
        assert following is not None
        grams = self.gram_embeddings(embeddings)
        kept = (own * self._head(states)).sum(-1, keepdim=True)
        replacing = self._head(replacing)
        following = self._head(following)
        appended = following @ grams.T + (kept if self.no_insert is None else 0)
        replaced = replacing @ grams.T - (own * replacing).sum(-1, keepdim=True)
        transforms = scores.size(1) - 2 - 2 * len(self.grams)
        rest = [kept, torch.zeros_like(kept), appended, replaced, kept.expand(-1, transforms)]
        scores = scores + torch.cat(rest, dim=1)
        return scores if self.no_insert is None else self._joint_log_probs(scores, following)

    def _joint_log_probs(self, scores: Tensor, gaps: Tensor) -> Tensor:
        """Return the sum of the log-probabilities of the two decisions of each label [n, labels].

        Args:
            scores: [n, labels], logits.
            gaps: [n, dim], states from which the logit of no insertion is computed.
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
        """Return phi(w) of each q-gram [M, dim], from the cache in evaluation mode."""
        if self.cached_grams is not None and not self.training:
            return self.cached_grams
        embedded = functional.embedding(self.grams, embeddings, self.padding)
        return embedded.masked_fill(self.grams.eq(self.padding).unsqueeze(-1), 0).sum(1)

    def cache_grams(self, embeddings: Tensor) -> None:
        """Compute the q-gram embeddings once, for inference."""
        if self.factorized:
            with torch.no_grad():
                self.cached_grams = self.gram_embeddings(embeddings)

    def _head(self, states: Tensor) -> Tensor:
        """Return H(states) [n, dim], the transform of BERT's masked language model head."""
        transformed: Tensor = self.transform_norm(functional.gelu(self.transform(states)))
        return transformed
