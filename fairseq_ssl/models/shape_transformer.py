"""SHAPE: a Transformer with shifted absolute positions (Kiyono et al., 2021; thesis, 6.2.3)."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART
from fairseq_ssl.compat import avoid_fast_path
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.shifted_positions import ShiftedSinusoidalPositions

DEFAULT_MAX_SHIFT = 500


@register_model("shape_transformer")
class ShapeTransformerModel(TransformerModel):
    """fairseq's Transformer, its positions shifted by a random k while it trains.

    Source and target draw their shifts apart. With ``--shape-max-shift 0`` it is the
    stock Transformer, bit for bit.
    """

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Return no models: those of the stock Transformer are not of this kind."""
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of the stock Transformer and the one of this model."""
        super().add_args(parser)
        parser.add_argument(
            "--shape-max-shift",
            type=int,
            metavar="K",
            help="largest shift of the positions in training, in tokens: k is drawn from "
            "{0, ..., K} for each sequence and step, apart for source and target; K in the "
            f"thesis, section 6.2.3; 0 is the stock Transformer (default: {DEFAULT_MAX_SHIFT})",
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> ShapeTransformerModel:
        """Build the stock Transformer and give both sides shifted positions."""
        _check(args)
        model: ShapeTransformerModel = super().build_model(args, task)
        for side in (model.encoder, model.decoder):
            side.embed_positions = ShiftedSinusoidalPositions.replacing(
                side.embed_positions, args.shape_max_shift
            )
        avoid_fast_path(model.encoder)
        return model


def _check(args: Any) -> None:
    """Refuse settings under which there is no sinusoidal position to shift."""
    if args.shape_max_shift < 0:
        raise ConfigurationError(
            f"--shape-max-shift is {args.shape_max_shift}; expected 0 or more tokens."
        )
    for flag in ("encoder_learned_pos", "decoder_learned_pos", "no_token_positional_embeddings"):
        if getattr(args, flag, False):
            raise ConfigurationError(
                f"--{flag.replace('_', '-')} does not go with a shape_transformer, whose positions "
                "are sinusoidal. Drop the flag, or take one of fairseq's own architectures."
            )


def _architecture(stock_arch: str) -> Callable[[Any], None]:
    """Return the function that fills `args` with the sizes of `stock_arch` and our defaults."""

    def fill(args: Any) -> None:
        args.shape_max_shift = getattr(args, "shape_max_shift", DEFAULT_MAX_SHIFT)
        ARCH_CONFIG_REGISTRY[stock_arch](args)

    return fill


for _arch, _stock_arch in STOCK_COUNTERPART.items():
    register_model_architecture("shape_transformer", _arch)(_architecture(_stock_arch))
