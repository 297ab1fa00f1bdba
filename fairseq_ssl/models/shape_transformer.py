"""Transformer with shifted, absolute or relative positions (SHAPE; Kiyono, 2022, chapter 6)."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model_architecture
from fairseq.models.transformer import TransformerModel

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART
from fairseq_ssl.errors import reject_options
from fairseq_ssl.models.common import fill_defaults, register_model
from fairseq_ssl.modules.positional_encoding import (
    RelativeSelfAttention,
    ShiftedSinusoidalPositions,
)
from fairseq_ssl.options import add_options, option

POSITIONS = ("absolute", "shifted", "relative")
EMBEDDING_INITS = ("normal", "glorot")


@dataclass(frozen=True)
class ShapeOptions:
    """Options of the model. Kiyono (2022) does not specify the embedding initialization."""

    shape_positions: str = option(
        "shifted",
        "position encoding; absolute: sinusoids; shifted: sinusoids with random shifts in training "
        "(SHAPE); relative: learned distance vectors in self-attention (Shaw et al., 2018)",
        choices=POSITIONS,
    )
    shape_max_shift: int = option(
        500,
        "maximum shift in tokens during training (shifted only); shifts are drawn uniformly from 0 "
        "to this maximum for each sequence and update, separately for source and target",
        low=0,
        metavar="K",
    )
    shape_shared_shift: bool = option(
        False,
        "use the same random shift for source and target (shifted only); not in Kiyono (2022)",
        usual="separately for source and target",
    )
    shape_shift_warmup: int = option(
        0,
        "number of initial updates in which the maximum shift grows linearly from 0 to "
        "--shape-max-shift (shifted only); not in Kiyono (2022)",
        low=0,
    )
    shape_eval_offset: int = option(
        0,
        "index of the first position in evaluation (absolute and shifted only); Kiyono (2022) uses "
        "0, and the SHAPE code uses the value of --shape-max-shift",
        low=0,
    )
    shape_relative_limit: int = option(
        16,
        "maximum relative distance in tokens (relative only); larger distances are clipped",
        low=1,
        metavar="L",
    )
    shape_relative_one_table: bool = option(
        False,
        "use the same table of distance vectors for keys and values (relative only), as in "
        "OpenNMT-py",
        usual="two tables, as in Shaw et al.",
    )
    shape_embedding_init: str = option(
        "normal",
        "initialization of token embeddings; normal: normal distribution with standard deviation "
        "dim^-0.5, as in fairseq; glorot: uniform distribution, as in OpenNMT-py, which the "
        "authors used",
        choices=EMBEDDING_INITS,
    )


DEFAULTS = vars(ShapeOptions())
SHIFT_OPTIONS = ("shape_max_shift", "shape_shared_shift", "shape_shift_warmup")
"""Options of shifted positions. Other positions require the values 0 or False."""
RELATIVE_OPTIONS = ("shape_relative_limit", "shape_relative_one_table")
"""Options of relative positions. Other positions require their default values."""
OTHER_POSITIONS = (
    "encoder_learned_pos",
    "decoder_learned_pos",
    "no_token_positional_embeddings",
)
OTHER_ATTENTION = (
    "cross_self_attention",
    "encoder_xformers_att_config",
    "decoder_xformers_att_config",
)


@register_model("shape_transformer", config=ShapeOptions)
class ShapeTransformerModel(TransformerModel):
    """fairseq's Transformer with one of three position encodings.

    Shifted positions are sinusoids with random shifts in training. With `shape_shared_shift`,
    source and target have the same shift. Absolute positions are the sinusoids of fairseq's
    Transformer, bit for bit by default. Relative positions use relative self-attention.
    """

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Return an empty dictionary: fairseq's pretrained Transformers are not compatible."""
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options of fairseq's Transformer and of this model to a parser."""
        super().add_args(parser)
        add_options(parser, ShapeOptions)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> ShapeTransformerModel:
        """Build fairseq's Transformer and replace its position encodings."""
        _check(args)
        model: ShapeTransformerModel = super().build_model(args, task)
        for side in (model.encoder, model.decoder):
            if args.shape_positions == "relative":
                _make_relative(side, args)
            else:  # absolute positions are shifted by 0
                side.embed_positions = ShiftedSinusoidalPositions.from_stock(
                    side.embed_positions,
                    args.shape_max_shift,
                    args.shape_eval_offset,
                    args.shape_shift_warmup,
                )
        if args.shape_shared_shift:
            model.decoder.embed_positions.follow(model.encoder.embed_positions)
        if args.shape_embedding_init == "glorot":
            _init_embeddings_glorot(model)
        return model


def _make_relative(side: Any, args: Any) -> None:
    """Remove the sinusoids, and replace each layer's self-attention with relative attention."""
    side.embed_positions = None
    # Use `children`: with --encoder-layerdrop, iterating over `layers` skips some of them.
    for layer in side.layers.children():
        layer.self_attn = RelativeSelfAttention.from_stock(
            layer.self_attn, args.shape_relative_limit, args.shape_relative_one_table
        )


def _init_embeddings_glorot(model: ShapeTransformerModel) -> None:
    """Reinitialize token embeddings as in Glorot and Bengio (2010), with 0 for padding.

    The output projection is also reinitialized, but an adaptive softmax is not.
    """
    encoder, decoder = model.encoder, model.decoder
    tables = [encoder.embed_tokens, decoder.embed_tokens]
    if decoder.output_projection is not None:
        tables.append(decoder.output_projection)
    for weight in {id(table.weight): table.weight for table in tables}.values():
        torch.nn.init.xavier_uniform_(weight)
        torch.nn.init.zeros_(weight[encoder.padding_idx])


def _check(args: Any) -> None:
    """Reject options that conflict with the position encoding or have no effect."""
    positions = f"--shape-positions {args.shape_positions}, which has"
    _reject(args, OTHER_POSITIONS, "shape_transformer, which has its own position encoding")
    if args.shape_positions != "shifted":
        _reject(args, SHIFT_OPTIONS, f"{positions} no shifts")
    if args.shape_positions == "relative":
        _reject(args, ["shape_eval_offset"], f"{positions} no absolute positions")
        _reject(args, OTHER_ATTENTION, f"{positions} its own attention")
    else:
        changed = {name: getattr(args, name) != DEFAULTS[name] for name in RELATIVE_OPTIONS}
        reject_options(f"{positions} no relative positions", changed)


def _reject(args: Any, names: Iterable[str], subject: str) -> None:
    reject_options(subject, {name: getattr(args, name, None) for name in names})


def _architecture(stock_arch: str) -> Callable[[Any], None]:
    """Return a function that fills unset options with defaults of this model and `stock_arch`."""

    def fill(args: Any) -> None:
        fill_defaults(args, shape_positions=DEFAULTS["shape_positions"])
        if args.shape_positions != "shifted":
            fill_defaults(args, shape_max_shift=0)
        fill_defaults(args, **DEFAULTS)
        ARCH_CONFIG_REGISTRY[stock_arch](args)

    return fill


for _arch, _stock_arch in STOCK_COUNTERPART.items():
    register_model_architecture("shape_transformer", _arch)(_architecture(_stock_arch))
