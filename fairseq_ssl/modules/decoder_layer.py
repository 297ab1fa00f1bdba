"""A decoder's layer whose self-attention and linear maps may be an encoder's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_ssl.modules.attention import KeysValues
from fairseq_ssl.modules.decoder_context import SourceContext, TargetContext
from fairseq_ssl.modules.transformer_block import BlockSizes, TransformerBlock

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
