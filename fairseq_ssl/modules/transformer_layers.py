"""Transformer layers with residual norms, whose weights an encoder and a decoder can share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.attention import Attention, KeysValues, SourceContext, TargetContext


@dataclass(frozen=True)
class BlockSizes:
    """What decides the shape of a layer and how it computes."""

    dim: int
    inner_dim: int
    heads: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_before: bool = False

    def attention(self) -> Attention:
        """Return a fresh attention."""
        return Attention(self.dim, self.heads, self.attention_dropout)

    def norm(self) -> ResidualNorm:
        """Return a fresh norm."""
        return ResidualNorm(self.dim, self.dropout, self.norm_before)


class ResidualNorm(nn.LayerNorm):
    """A norm at the beginning of a part of a layer, or at its end after what goes around it."""

    def __init__(self, dim: int, dropout: float, before: bool) -> None:
        super().__init__(dim)
        self.dropout = dropout
        self.before = before

    def enter(self, states: Tensor) -> Tensor:
        """Return what the part is to work on."""
        normed: Tensor = self(states) if self.before else states
        return normed

    def leave(self, states: Tensor, change: Tensor) -> Tensor:
        """Return the states after the part has computed `change` from them."""
        states = states + functional.dropout(change, self.dropout, self.training)
        normed: Tensor = states if self.before else self(states)
        return normed


class TransformerBlock(nn.Module):
    """Self-attention and two linear maps: a layer of an encoder, and most of a decoder's."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.activation_dropout = sizes.activation_dropout
        self.self_attn = sizes.attention()
        self.self_attn_layer_norm = sizes.norm()
        self.fc1 = nn.Linear(sizes.dim, sizes.inner_dim)
        self.fc2 = nn.Linear(sizes.inner_dim, sizes.dim)
        self.final_layer_norm = sizes.norm()

    def forward(self, states: Tensor, seen: Tensor | None) -> tuple[Tensor, KeysValues]:
        """Encode `states` [batch, time, dim], which all see each other.

        Args:
            states: of the layer below
            seen: [batch, 1, 1, time], those that are not padding; None where all are

        Returns:
            the next layer's states, and the keys and values of these
        """
        query, own = self.self_attn.within(self.self_attn_layer_norm.enter(states))
        states = self.self_attn_layer_norm.leave(states, self.self_attn.attend(query, own, seen))
        return self.transformed(states), own

    def transformed(self, states: Tensor) -> Tensor:
        """Return the states after the two linear maps."""
        inner = functional.relu(self.fc1(self.final_layer_norm.enter(states)))
        inner = functional.dropout(inner, self.activation_dropout, self.training)
        return self.final_layer_norm.leave(states, self.fc2(inner))


GENERATED, COPIED = 0, 1


class DecoderLayer(nn.Module):
    """What a layer has besides a block: attention to the source, and segments (PBD, 3.1).

    The block is given with each call, since it is registered elsewhere where it is shared.
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
        """Return the next layer's states [rows, time, dim], and the queries to the source."""
        attention, norm = block.self_attn, block.self_attn_layer_norm
        entered = norm.enter(states)
        if self.segments is not None:
            entered = entered + self.segments[GENERATED]
        query, own = attention.within(entered)
        found = attention.attend(query, target.join(layer, own), target.seen)
        states = norm.leave(states, found)
        norm = self.encoder_attn_layer_norm
        query = self.encoder_attn.queries(norm.enter(states))
        states = norm.leave(states, source.attend(self.encoder_attn, layer, query))
        return block.transformed(states), query

    def copied(self, block: TransformerBlock, states: Tensor) -> KeysValues:
        """Return source states [sentences, time, dim] as a pseudo future."""
        assert self.segments is not None
        entered = block.self_attn_layer_norm.enter(states)
        return block.self_attn.keys_values(entered + self.segments[COPIED])

    def copied_from(self, block: TransformerBlock, own: KeysValues) -> KeysValues:
        """Return the same, from the keys and values that the block itself made of the states."""
        assert self.segments is not None
        return block.self_attn.moved(own, self.segments[COPIED])
