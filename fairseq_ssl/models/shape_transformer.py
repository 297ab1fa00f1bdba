"""SHAPE: a Transformer with shifted absolute positions (Kiyono et al., 2021; thesis, ch. 6)."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models.architecture_defaults import fill_defaults
from fairseq_ssl.modules.positional_encoding import (
    RelativeSelfAttention,
    ShiftedSinusoidalPositions,
)

POSITIONS = ("absolute", "shifted", "relative")
EMBEDDING_INITS = ("normal", "glorot")

DEFAULTS = {
    "shape_positions": "shifted",
    "shape_max_shift": 500,
    "shape_eval_offset": 0,
    "shape_relative_limit": 16,
    "shape_relative_one_table": False,
    "shape_embedding_init": "normal",
}
"""Defaults of the options: the values of the thesis, which does not mention initial embeddings."""


@register_model("shape_transformer")
class ShapeTransformerModel(TransformerModel):
    """fairseq's Transformer with one of the thesis' three kinds of positions.

    Shifted: by a random k while it trains, apart for source and target. Absolute: never
    shifted, the stock Transformer bit for bit. Relative: distances within self-attention.
    """

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Return no models: those of the stock Transformer are not of this kind."""
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of the stock Transformer and those of this model."""
        super().add_args(parser)
        parser.add_argument(
            "--shape-positions",
            choices=POSITIONS,
            help="absolute: sinusoids; shifted: sinusoids, shifted at random in training (SHAPE); "
            "relative: learned distances in self-attention, no sinusoids (Shaw et al., 2018) "
            f"(default: {DEFAULTS['shape_positions']})",
        )
        parser.add_argument(
            "--shape-max-shift",
            type=int,
            metavar="K",
            help="with shifted: largest shift in training, in tokens: k is drawn from "
            "{0, ..., K} for each sequence and step, apart for source and target; K in the "
            f"thesis, section 6.2.3 (default: {DEFAULTS['shape_max_shift']})",
        )
        parser.add_argument(
            "--shape-eval-offset",
            type=int,
            metavar="N",
            help="with absolute or shifted: outside training the first position is this many "
            "tokens on; 0 is the thesis, K what the authors' code does "
            f"(default: {DEFAULTS['shape_eval_offset']})",
        )
        parser.add_argument(
            "--shape-relative-limit",
            type=int,
            metavar="L",
            help="with relative: largest distance told apart, in tokens, 1 or more; those "
            f"beyond count as L (default: {DEFAULTS['shape_relative_limit']})",
        )
        parser.add_argument(
            "--shape-relative-one-table",
            action="store_true",
            default=None,
            help="with relative: one table of distances for both keys and values, as "
            "OpenNMT-py has it (default: two, as Shaw et al. have it)",
        )
        parser.add_argument(
            "--shape-embedding-init",
            choices=EMBEDDING_INITS,
            help="distribution of the initial token embeddings: normal, standard deviation "
            "dim^-0.5, as in fairseq; glorot, uniform, as in OpenNMT-py, with which the "
            f"authors trained (default: {DEFAULTS['shape_embedding_init']})",
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> ShapeTransformerModel:
        """Build the stock Transformer and give both sides the positions asked for."""
        _check(args)
        model: ShapeTransformerModel = super().build_model(args, task)
        for side in (model.encoder, model.decoder):
            if args.shape_positions == "relative":
                _make_relative(side, args)
            else:
                _make_shifted(side, args)
        if args.shape_embedding_init == "glorot":
            _draw_embeddings(model)
        return model


def _make_shifted(side: Any, args: Any) -> None:
    """Let an encoder or decoder shift its sinusoids; absolute positions shift by nothing."""
    max_shift = args.shape_max_shift if args.shape_positions == "shifted" else 0
    side.embed_positions = ShiftedSinusoidalPositions.replacing(
        side.embed_positions, max_shift, args.shape_eval_offset
    )


def _make_relative(side: Any, args: Any) -> None:
    """Take the sinusoids away, and let each layer's self-attention know distances instead."""
    side.embed_positions = None
    for layer in side.layers.children():  # iterating would skip some under --encoder-layerdrop
        layer.self_attn = RelativeSelfAttention.replacing(
            layer.self_attn, args.shape_relative_limit, args.shape_relative_one_table
        )


def _draw_embeddings(model: ShapeTransformerModel) -> None:
    """Draw the token embeddings again, by Glorot and Bengio (2010); those of padding stay 0."""
    encoder, decoder = model.encoder, model.decoder
    tables = (encoder.embed_tokens, decoder.embed_tokens, decoder.output_projection)
    for weight in {id(table.weight): table.weight for table in tables}.values():
        torch.nn.init.xavier_uniform_(weight)
        torch.nn.init.zeros_(weight[encoder.padding_idx])


def _check(args: Any) -> None:
    """Refuse settings out of range, and those under which the positions would not count."""
    smallest = {"shape_max_shift": 0, "shape_eval_offset": 0, "shape_relative_limit": 1}
    for name, least in smallest.items():
        value = getattr(args, name)
        if value < least:
            raise ConfigurationError(f"{flag(name)} is {value}; expected {least} or more tokens.")
    if args.shape_positions not in POSITIONS:  # Hydra does not look at the choices
        raise ConfigurationError(
            f"--shape-positions is {args.shape_positions!r}; expected {', '.join(POSITIONS)}."
        )
    if args.shape_embedding_init not in EMBEDDING_INITS:
        raise ConfigurationError(
            f"--shape-embedding-init is {args.shape_embedding_init!r}; expected "
            f"{' or '.join(EMBEDDING_INITS)}."
        )
    for name in ("encoder_learned_pos", "decoder_learned_pos", "no_token_positional_embeddings"):
        if getattr(args, name, False):
            raise ConfigurationError(
                f"{flag(name)} does not go with a shape_transformer, which has positions of its "
                "own. Drop the flag, or take one of fairseq's own architectures."
            )
    if args.shape_positions == "relative":
        _check_attention(args)


def _check_attention(args: Any) -> None:
    """Refuse what changes the self-attention that relative positions replace."""
    if args.shape_eval_offset:
        raise ConfigurationError(
            "--shape-eval-offset does not go with --shape-positions relative: there is no first "
            "position to move. Drop it."
        )
    for name in (
        "cross_self_attention",
        "encoder_xformers_att_config",
        "decoder_xformers_att_config",
    ):
        if getattr(args, name, None):
            raise ConfigurationError(
                f"{flag(name)} does not go with --shape-positions relative, which has an "
                "attention of its own. Drop one of the two."
            )


def _architecture(stock_arch: str) -> Callable[[Any], None]:
    """Return the function that fills `args` with the sizes of `stock_arch` and our defaults."""

    def fill(args: Any) -> None:
        fill_defaults(args, **DEFAULTS)
        ARCH_CONFIG_REGISTRY[stock_arch](args)

    return fill


for _arch, _stock_arch in STOCK_COUNTERPART.items():
    register_model_architecture("shape_transformer", _arch)(_architecture(_stock_arch))
