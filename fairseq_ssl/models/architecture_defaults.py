"""Default options of named architectures."""

from typing import Any


def fill_defaults(args: Any, **defaults: Any) -> None:
    """Set the options that the user did not set. fairseq's parser omits them or sets None."""
    for name, default in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, default)


def fill_sizes(args: Any, layers: int, dim: int, inner_dim: int, heads: int) -> None:
    """Set the sizes of an encoder in fairseq's options."""
    fill_defaults(
        args,
        encoder_layers=layers,
        encoder_embed_dim=dim,
        encoder_ffn_embed_dim=inner_dim,
        encoder_attention_heads=heads,
    )
