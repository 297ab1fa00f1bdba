"""ByteNet: translation in linear time with dilated convolutions (Kalchbrenner et al., 2016)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.data.dataset_sides import fit_length_bound, parse_length_bound, training_lengths
from fairseq_ssl.errors import ConfigurationError, reject_options
from fairseq_ssl.models.common import (
    FeatureDecoder,
    StoredConfig,
    register_architectures,
    register_model,
    reject_attention,
)
from fairseq_ssl.modules.dilated_stack import (
    ACTIVATIONS,
    NORMS,
    SLOPE_UNITS,
    DilatedStack,
    StackSizes,
    Unfolding,
    init_weights,
)
from fairseq_ssl.modules.functional import Rows
from fairseq_ssl.options import option
from fairseq_ssl.text.specs import parse_integers

STATE = "bytenet"
DECODER_KERNEL = 3
"""Decoder kernel size: the part of a centered kernel of size 5 that covers no future positions."""
MAX_LENGTH = 1_000_000
"""Maximum sentence length reported to fairseq. The model itself has no limit."""


@dataclass
class ByteNetConfig(StoredConfig):
    """ByteNet options. Except for `bytenet_unfold`, the defaults are from Madsen (2017)."""

    bytenet_dim: int = option(
        400, "number of encoder channels (d), an even number; the decoder has twice as many", low=2
    )
    bytenet_sets: int = option(3, "number of block sets, each with one block per dilation", low=1)
    bytenet_dilations: str = option(
        "1,2,4,8,16", "comma-separated dilations of the blocks in a set, each 1 or more"
    )
    bytenet_encoder_norm: ChoiceEnum(NORMS) = option(  # type: ignore[valid-type]
        "batch",
        "normalization before each activation in the encoder; with batch or layer, the decoder "
        "uses layer norm, because batch norm would leak future tokens",
        choices=NORMS,
    )
    bytenet_unfold: str = option(
        "auto",
        "coefficients a,b of the bound on the target length; for a source of |s| tokens, "
        "including </s>, the encoder returns max(|s|, a |s| + b) columns; the ByteNet paper "
        "uses 1.2,0; auto: a bound that holds for 99.9 percent of the training pairs is fitted "
        "and stored in the checkpoint",
    )
    dropout: float = option(0.0, "dropout probability of residual branches", low=0, high=1)
    bytenet_encoder_kernel: int = 5
    """Encoder kernel size, an odd number."""
    bytenet_uncompressed: bool = False
    """True if the residual blocks do not compress channels."""
    bytenet_activation: ChoiceEnum(list(ACTIVATIONS)) = "relu"  # type: ignore[valid-type]
    """Activation function: relu, or selu with LeCun initialization."""


class ByteNetEncoder(FairseqEncoder):
    """An encoder with dynamic unfolding, which returns at least one column per source token."""

    def __init__(self, cfg: ByteNetConfig, dictionary: Any, unfolding: Unfolding) -> None:
        super().__init__(dictionary)
        self.padding = dictionary.pad()
        self.embed_tokens = _embedding(len(dictionary), cfg, self.padding)
        self.stack = DilatedStack(_sizes(cfg, is_causal=False))
        self.unfolding = unfolding

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any
    ) -> dict[str, list[Any]]:
        """Encode ids [batch, time], padded on either side. Return an output in fairseq's format.

        The key `columns` contains the number of output columns for each sentence [batch]. Raise
        ConfigurationError if the length bound is unknown.
        """
        if not self.unfolding.is_known:
            raise ConfigurationError(
                "--bytenet-unfold is auto, but no training pairs could be loaded to fit the length "
                "bound to. Load a trained checkpoint, or set a bound such as --bytenet-unfold 1.2,0"
            )
        real = src_tokens.ne(self.padding)
        lengths = real.sum(1)
        # Move the padding to the right, whichever side fairseq put it on.
        order = (~real).to(torch.uint8).sort(dim=1, stable=True)[1]
        tokens = src_tokens.gather(1, order)
        columns = self.unfolding(lengths)
        time = int(columns.max())
        states = self.embed_tokens(tokens)  # zero for padding
        states = functional.pad(states, (0, 0, 0, max(0, time - states.size(1))))[:, :time]
        rows = Rows.of_mask(_is_column(columns, time))
        return _encoder_out(rows.pad(self.stack(rows.pack(states), rows)), columns)

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Any]], new_order: Tensor
    ) -> dict[str, list[Any]]:
        """Return the encoder output for the sentences with the indices `new_order`."""
        encoded = encoder_out["encoder_out"][0].index_select(1, new_order)
        columns = encoder_out["columns"][0].index_select(0, new_order)
        return _encoder_out(encoded.transpose(0, 1), columns)

    def max_positions(self) -> int:
        """Return `MAX_LENGTH`, because the source length is not limited."""
        return MAX_LENGTH


class ByteNetDecoder(FeatureDecoder):
    """A decoder stacked on the encoder: the n-th target position reads the n-th encoder column."""

    def __init__(self, cfg: ByteNetConfig, dictionary: Any) -> None:
        super().__init__(dictionary)
        self.embed_tokens = _embedding(len(dictionary), cfg, dictionary.pad())
        sizes = _sizes(cfg, is_causal=True)
        self.stack = DilatedStack(sizes)
        self.output = nn.Linear(sizes.dim, len(dictionary))
        init_weights(self.output, sizes.activation)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return features [batch, time, 2 dim] and extra outputs for input ids [batch, time].

        With `incremental_state`, only the features of the last position are returned.
        """
        assert encoder_out is not None
        columns = encoder_out["encoder_out"][0].transpose(0, 1)
        time = prev_output_tokens.size(1)
        if incremental_state is None:
            below = functional.pad(columns[:, :time], (0, 0, 0, max(0, time - columns.size(1))))
            states = torch.cat([below, self.embed_tokens(prev_output_tokens)], 2)
            rows = Rows(len(prev_output_tokens), time, None)
            features = rows.pad(self.stack(rows.pack(states), rows))
        else:
            word = self.embed_tokens(prev_output_tokens[:, -1])
            step = time - 1
            below = columns[:, step] if step < columns.size(1) else torch.zeros_like(word)
            state = torch.cat([below, word], 1)
            past = self._past(incremental_state, state)
            features = self.stack.step(state, past, step).unsqueeze(1)
        return features, {"attn": [None], "inner_states": []}

    def _past(self, incremental_state: dict[str, Any], rows: Tensor) -> Tensor:
        """Return the ring buffers of all blocks [rows, cache_size, width], initially 0."""
        if STATE not in incremental_state:
            blank = rows.new_zeros(len(rows), self.stack.cache_size, self.stack.width)
            incremental_state[STATE] = {"past": blank}
        past: Tensor = incremental_state[STATE]["past"]
        return past

    def output_layer(self, features: Tensor, **_: Any) -> Tensor:
        """Return the logits [batch, time, vocabulary] for features [batch, time, 2 dim]."""
        scores: Tensor = self.output(features)
        return scores

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Select the rows of the incremental state with the indices `new_order`."""
        if STATE in incremental_state:
            state = incremental_state[STATE]
            state["past"] = state["past"].index_select(0, new_order)

    def max_positions(self) -> int:
        """Return `MAX_LENGTH`, because the target length is not limited."""
        return MAX_LENGTH


@register_model("bytenet", dataclass=ByteNetConfig)
class ByteNet(FairseqEncoderDecoderModel):
    """A decoder stacked on an encoder, both made of dilated convolutions."""

    @classmethod
    def build_model(cls, cfg: ByteNetConfig, task: Any) -> "ByteNet":
        """Build the model. If `bytenet_unfold` is auto, fit the length bound to training pairs."""
        _check(cfg, task)
        encoder = ByteNetEncoder(cfg, task.source_dictionary, _unfolding(cfg, task))
        return cls(encoder, ByteNetDecoder(cfg, task.target_dictionary))

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare for decoding. Reject options that need attention weights."""
        reject_attention("bytenet, which has no attention", cfg.generation)
        super().prepare_for_inference_(cfg)


def _embedding(size: int, cfg: ByteNetConfig, padding: int) -> nn.Embedding:
    """Return embeddings with variance 1 / dim, or 1 for SELU. The padding embedding is zero."""
    embedding = nn.Embedding(size, cfg.bytenet_dim, padding)
    is_selu = str(cfg.bytenet_activation) == "selu"
    nn.init.normal_(embedding.weight, std=1.0 if is_selu else cfg.bytenet_dim**-0.5)
    nn.init.zeros_(embedding.weight[padding])
    return embedding


def _encoder_out(encoded: Tensor, columns: Tensor) -> dict[str, list[Any]]:
    """Return states [batch, time, dim] and column counts [batch] as fairseq's encoder output."""
    return {
        "encoder_out": [encoded.transpose(0, 1)],
        "encoder_padding_mask": [~_is_column(columns, encoded.size(1))],
        "columns": [columns],
    }


def _is_column(columns: Tensor, time: int) -> Tensor:
    """Return a mask [batch, time], True at the first `columns` [batch] positions of each row."""
    return torch.arange(time, device=columns.device) < columns.unsqueeze(1)


def _sizes(cfg: ByteNetConfig, is_causal: bool) -> StackSizes:
    """Return the stack sizes of the decoder if `is_causal`, otherwise of the encoder."""
    norm = str(cfg.bytenet_encoder_norm)
    return StackSizes(
        dim=2 * cfg.bytenet_dim if is_causal else cfg.bytenet_dim,
        kernel=DECODER_KERNEL if is_causal else cfg.bytenet_encoder_kernel,
        sets=cfg.bytenet_sets,
        dilations=_parse_dilations(cfg.bytenet_dilations),
        is_causal=is_causal,
        is_compressed=not cfg.bytenet_uncompressed,
        norm="layer" if is_causal and norm != "none" else norm,
        activation=str(cfg.bytenet_activation),
        dropout=cfg.dropout,
    )


def _parse_dilations(text: str) -> tuple[int, ...]:
    dilations = parse_integers(str(text), least=1)
    if dilations is None:
        raise ConfigurationError(
            f"--bytenet-dilations is {text!r}. Expected integers of 1 or more, such as 1,2,4,8,16."
        )
    return dilations


def _unfolding(cfg: ByteNetConfig, task: Any) -> Unfolding:
    """Return the length bound from the options, or a bound fitted to the training pairs.

    Without training pairs, the bound is unknown until a checkpoint is loaded.
    """
    if cfg.bytenet_unfold != "auto":
        bound = parse_length_bound(str(cfg.bytenet_unfold))
        if bound is None or max(bound) >= MAX_LENGTH:
            raise ConfigurationError(
                f"--bytenet-unfold is {cfg.bytenet_unfold!r}. Expected auto, or two "
                f"comma-separated numbers of 0 or more, below {MAX_LENGTH:,}, such as 1.2,0."
            )
        slope, offset = bound  # rounded up, as in checkpoints; 1.1 * 100 is above 110
        units = math.ceil(round(SLOPE_UNITS * slope, 6))
        return Unfolding(units / SLOPE_UNITS, math.ceil(offset), keep=True)
    lengths = training_lengths(task)
    return Unfolding(*fit_length_bound(*lengths)) if lengths else Unfolding()


def _check(cfg: ByteNetConfig, task: Any) -> None:
    """Raise ConfigurationError for options that are invalid or that ByteNet does not support."""
    if cfg.bytenet_dim % 2 and not cfg.bytenet_uncompressed:
        raise ConfigurationError(
            f"--bytenet-dim is {cfg.bytenet_dim}. Expected an even number. Only --arch "
            "bytenet_simplified accepts odd numbers."
        )
    is_left_padded = getattr(getattr(task, "cfg", None), "left_pad_target", False)
    subject = "bytenet, whose n-th target token reads the n-th encoder column"
    reject_options(subject, {"left_pad_target": is_left_padded})


register_architectures(
    "bytenet",
    {
        # ablations in the slides: no compression, half the channels, one norm per block
        "bytenet_simplified": {"bytenet_uncompressed": True, "bytenet_dim": 200},
        "bytenet_no_norm": {"bytenet_encoder_norm": "none"},
        # with LeCun initialization
        "bytenet_selu": {"bytenet_activation": "selu", "bytenet_encoder_norm": "none"},
        # for the synthetic digits in the slides
        "bytenet_digits": {"bytenet_dim": 20},
        # version 2 of Kalchbrenner et al. (2016)
        "bytenet_v2": {
            "bytenet_dim": 800,
            "bytenet_sets": 6,
            "bytenet_encoder_kernel": 3,
            "bytenet_encoder_norm": "layer",
        },
    },
)
