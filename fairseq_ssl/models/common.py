"""Code that architectures share: registration, option defaults and checks, and base classes."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from functools import partial, update_wrapper
from typing import Any

from fairseq import models
from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY, FairseqIncrementalDecoder
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError, reject_options
from fairseq_ssl.options import checked

register_model = checked(models.register_model, "build_model")
"""fairseq's decorator `register_model`, extended to check options before a model is built."""


class StoredConfig(FairseqDataclass):
    """Base class of model configs whose fields are options or other values to store in checkpoints.

    A field without a help text is not a command-line option. An architecture or the task sets it.
    """

    @classmethod
    def stored(cls) -> dict[str, Any]:
        """Return the default values of the fields that are not options, by field name."""
        return {
            field.name: field.default
            for field in fields(cls)
            if "help" not in field.metadata and not field.name.startswith("_")
        }

    def _get_all_attributes(self) -> list[str]:
        """Return the names of the options. fairseq's parser calls this method."""
        return [name for name in super()._get_all_attributes() if name not in self.stored()]


def fill_defaults(args: Any, **defaults: Any) -> None:
    """Set options to their defaults unless the user has set them.

    fairseq's parser omits unset options or sets them to None.
    """
    for name, default in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, default)


def encoder_sizes(layers: int, dim: int, inner_dim: int, heads: int) -> dict[str, int]:
    """Return encoder sizes as a dictionary from fairseq option names to values."""
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": dim,
        "encoder_ffn_embed_dim": inner_dim,
        "encoder_attention_heads": heads,
    }


def register_architectures(model: str, architectures: dict[str, dict[str, Any]]) -> None:
    """Register named architectures of a model, each with its non-default options."""
    for name, defaults in architectures.items():
        fill = partial(_fill, model, defaults)
        models.register_model_architecture(model, name)(update_wrapper(fill, _fill))


def _fill(model: str, defaults: dict[str, Any], args: Any) -> None:
    if not isinstance(args, Namespace):  # a checkpoint, which lacks options that were added later
        declared = {field.name: field.default for field in fields(MODEL_DATACLASS_REGISTRY[model])}
        defaults = {name: declared[name] for name in declared.keys() - args.keys()} | defaults
    fill_defaults(args, **defaults)


def check_heads(args: Any) -> None:
    """Raise ConfigurationError unless the attention heads divide the embedding dimension evenly."""
    if args.encoder_embed_dim % args.encoder_attention_heads:
        raise ConfigurationError(
            f"--encoder-embed-dim is {args.encoder_embed_dim}. Expected a multiple of "
            f"--encoder-attention-heads, {args.encoder_attention_heads}."
        )


def require_joint_dictionary(source: Any, target: Any, subject: str) -> None:
    """Raise ConfigurationError if source and target have different dictionaries."""
    if source != target:
        raise ConfigurationError(
            f"Source and target have different dictionaries, but {subject} needs a joint "
            "dictionary. Binarize the data with fairseq-preprocess --joined-dictionary."
        )


def reject_attention(subject: str, args: Any) -> None:
    """Raise ConfigurationError if a fairseq option is set that needs source attention weights."""
    options = {
        "print_alignment": getattr(args, "print_alignment", None),
        "replace_unk": getattr(args, "replace_unk", None) is not None,
    }
    reject_options(subject, options)


class FeatureDecoder(FairseqIncrementalDecoder):
    """Base class of decoders that define `extract_features` and `output_layer`.

    fairseq's TransformerDecoder has the same two methods.
    """

    scores_features_alone = True
    """True if the logits at a position depend only on the features at this position."""

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return logits [batch, time, vocabulary] and a dictionary of extra outputs.

        With `features_only`, return features [batch, time, dim] instead of logits. With
        `incremental_state`, return only the output at the last position.
        """
        features, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return features if features_only else self.output_layer(features), extra
