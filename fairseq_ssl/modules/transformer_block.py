"""The parts of a Transformer's layer, each with its norm and its way around it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.attention import Attention, KeysValues


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
