"""Transformer layers whose weights an encoder and a decoder can share (PBD)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.attention import Attention, KeysValues, SourceContext, TargetContext


@dataclass(frozen=True)
class BlockSizes:
    """Sizes and options of a Transformer layer."""

    dim: int
    inner_dim: int
    heads: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_before: bool = False

    def attention(self) -> Attention:
        """Build a multi-head attention module with these sizes."""
        return Attention(self.dim, self.heads, self.attention_dropout)

    def norm(self) -> ResidualNorm:
        """Build a layer norm with a residual connection."""
        return ResidualNorm(self.dim, self.dropout, self.norm_before)


class ResidualNorm(nn.LayerNorm):
    """Layer norm before a sublayer (pre-norm) or after its residual connection (post-norm).

    Use `enter` before the sublayer and `leave` after it.
    """

    def __init__(self, dim: int, dropout: float, before: bool) -> None:
        super().__init__(dim)
        self.dropout = dropout
        self.before = before

    def enter(self, states: Tensor) -> Tensor:
        """Return the sublayer's input: `states`, normalized in a pre-norm layer."""
        normed: Tensor = self(states) if self.before else states
        return normed

    def leave(self, states: Tensor, change: Tensor) -> Tensor:
        """Add the sublayer's output `change` to `states`, with dropout, and apply any post-norm."""
        states = states + functional.dropout(change, self.dropout, self.training)
        normed: Tensor = states if self.before else self(states)
        return normed


class TransformerBlock(nn.Module):
    """An encoder layer: self-attention and a feed-forward network. Decoder layers can share it."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.activation_dropout = sizes.activation_dropout
        self.self_attn = sizes.attention()
        self.self_attn_layer_norm = sizes.norm()
        self.fc1 = nn.Linear(sizes.dim, sizes.inner_dim)
        self.fc2 = nn.Linear(sizes.inner_dim, sizes.dim)
        self.final_layer_norm = sizes.norm()

    def forward(self, states: Tensor, mask: Tensor | None) -> tuple[Tensor, KeysValues]:
        """Apply the encoder layer to source states.

        Args:
            states: [batch, time, dim], the output of the layer below.
            mask: [batch, 1, 1, time], True at positions that are not padding, or None for no
                padding.

        Returns:
            the layer's output, and the keys and values of its self-attention
        """
        query, own = self.self_attn.project(self.self_attn_layer_norm.enter(states))
        states = self.self_attn_layer_norm.leave(states, self.self_attn.attend(query, own, mask))
        return self.feed_forward(states), own

    def feed_forward(self, states: Tensor) -> Tensor:
        """Apply the feed-forward network with its residual connection."""
        inner = functional.relu(self.fc1(self.final_layer_norm.enter(states)))
        inner = functional.dropout(inner, self.activation_dropout, self.training)
        return self.final_layer_norm.leave(states, self.fc2(inner))


TARGET, FUTURE = 0, 1
"""Row indices of segment embeddings, for the target prefix and the pseudo future."""


class DecoderLayer(nn.Module):
    """The unshared weights of a decoder layer: source attention and segment embeddings.

    A `TransformerBlock`, which contains self-attention and feed-forward network, is passed to each
    call, because a shared block is a submodule of the encoder (PBD, section 3.1).
    """

    def __init__(self, sizes: BlockSizes, has_segments: bool) -> None:
        super().__init__()
        self.encoder_attn = sizes.attention()
        self.encoder_attn_layer_norm = sizes.norm()
        self.segments = nn.Parameter(torch.zeros(2, sizes.dim)) if has_segments else None

    def forward(
        self,
        layer: int,
        block: TransformerBlock,
        states: Tensor,
        target: TargetContext,
        source: SourceContext,
    ) -> tuple[Tensor, Tensor]:
        """Return the layer's output [rows, time, dim] and the source attention's queries.

        Args:
            layer: index of the layer.
            block: the layer's self-attention and feed-forward network.
            states: [rows, time, dim], the output of the layer below.
            target: keys and values of self-attention.
            source: keys and values of source attention.
        """
        attention, norm = block.self_attn, block.self_attn_layer_norm
        entered = norm.enter(states)
        if self.segments is not None:
            entered = entered + self.segments[TARGET]
        attended = target.attend(attention, layer, entered)
        states = norm.leave(states, attended)
        norm = self.encoder_attn_layer_norm
        query = self.encoder_attn.project_queries(norm.enter(states))
        states = norm.leave(states, source.attend(self.encoder_attn, layer, query))
        return block.feed_forward(states), query

    def project_future(self, block: TransformerBlock, states: Tensor) -> KeysValues:
        """Project source states [sentences, time, dim] to keys and values of the pseudo future."""
        assert self.segments is not None
        entered = block.self_attn_layer_norm.enter(states)
        return block.self_attn.project_keys_values(entered + self.segments[FUTURE])

    def reuse_as_future(self, block: TransformerBlock, keys_values: KeysValues) -> KeysValues:
        """Return the output of `project_future`, computed from the encoder's `keys_values`.

        `block` must have computed `keys_values` from the same states, without segment embedding.
        """
        assert self.segments is not None
        return block.self_attn.translate_keys_values(keys_values, self.segments[FUTURE])
