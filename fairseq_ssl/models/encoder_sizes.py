"""Sizes of an architecture, under the options that a user gives."""

from typing import Any


def fill_sizes(args: Any, layers: int, dim: int, inner_dim: int, heads: int) -> None:
    """Set the sizes of an encoder that are not among `args` already."""
    args.encoder_layers = getattr(args, "encoder_layers", layers)
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", dim)
    args.encoder_ffn_embed_dim = getattr(args, "encoder_ffn_embed_dim", inner_dim)
    args.encoder_attention_heads = getattr(args, "encoder_attention_heads", heads)
