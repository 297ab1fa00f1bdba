"""ByteNet: translation by dilated convolutions in linear time (Kalchbrenner et al., 2016)."""

from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.data.length_bound import fit_length_bound, parse_length_bound, training_lengths
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models.architecture_defaults import fill_defaults
from fairseq_ssl.modules.dilated_stack import (
    ACTIVATIONS,
    INITS,
    NORMS,
    DilatedStack,
    RealPositions,
    StackSizes,
    Unfolding,
    draw_weights,
)
from fairseq_ssl.text.specs import parse_integers

STATE = "bytenet"
LONGEST = 1_000_000
"""Nothing in the model ends at a length."""


@dataclass
class ByteNetConfig(FairseqDataclass):
    """The options of the model; its defaults are those of the slides."""

    bytenet_dim: int = field(
        default=400,
        metadata={
            "help": "channels d of the encoder; the decoder has twice as many (default: 400)"
        },
    )
    bytenet_sets: int = field(
        default=3, metadata={"help": "sets of blocks, each with all dilations (default: 3)"}
    )
    bytenet_dilations: str = field(
        default="1,2,4,8,16",
        metadata={"help": "dilations of the blocks of a set (default: 1,2,4,8,16)"},
    )
    bytenet_encoder_kernel: int = field(
        default=5, metadata={"help": "positions each position sees, an odd number (default: 5)"}
    )
    bytenet_decoder_kernel: int = field(
        default=3,
        metadata={
            "help": "the same in the decoder, itself and those before it (default: 3, which is a "
            "kernel of 5 without its future)"
        },
    )
    bytenet_uncompressed: bool = field(
        default=False,
        metadata={"help": "blocks of a dilated convolution alone, with all channels (Simplified)"},
    )
    bytenet_encoder_norm: ChoiceEnum(list(NORMS)) = field(  # type: ignore[valid-type]
        default="batch", metadata={"help": "norm before each activation (default: batch)"}
    )
    bytenet_decoder_norm: ChoiceEnum(["layer", "none"]) = field(  # type: ignore[valid-type]
        default="layer",
        metadata={"help": "the same in the decoder (default: layer; batch would see the future)"},
    )
    bytenet_activation: ChoiceEnum(list(ACTIVATIONS)) = field(  # type: ignore[valid-type]
        default="relu", metadata={"help": "relu or selu (default: relu)"}
    )
    bytenet_init: ChoiceEnum(list(INITS)) = field(  # type: ignore[valid-type]
        default="he",
        metadata={
            "help": "distribution of the initial weights, uniform: he, with the variance 2 / "
            "fan-in, as in the slides; lecun, 1 / fan-in; author, between +- (fan-in "
            "fan-out)^(-1/4), as in the author's library (default: he)"
        },
    )
    bytenet_residual_scale: float = field(
        default=1.0,
        metadata={
            "help": "what a block adds is multiplied by this; 0 stands for 1 / sqrt(2 L), L the "
            "blocks of a side (default: 1)"
        },
    )
    bytenet_unfold: str = field(
        default="auto",
        metadata={
            "help": "a,b: the encoder has a |s| + b columns for a source s, its end counted, and "
            "never fewer than |s|; 1.2,0 in ByteNet. auto: the lowest line above nearly all "
            "training pairs, found before training and kept in the checkpoint (default: auto)"
        },
    )
    bytenet_unfold_share: float = field(
        default=0.999,
        metadata={"help": "with auto, the share of pairs below the line (default: 0.999)"},
    )
    dropout: float = field(
        default=0.0, metadata={"help": "dropout of what a block adds, 0 to 1 (default: 0)"}
    )


class ByteNetEncoder(FairseqEncoder):
    """Columns of states, one or more for each token of the source."""

    def __init__(self, cfg: ByteNetConfig, dictionary: Any, unfolding: Unfolding) -> None:
        super().__init__(dictionary)
        self.padding = dictionary.pad()
        self.embed_tokens = _embedding(len(dictionary), cfg, self.padding)
        self.stack = DilatedStack(_encoder_sizes(cfg))
        self.unfolding = unfolding

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any
    ) -> dict[str, list[Any]]:
        """Encode ids [batch, time], padded on either side."""
        if not self.unfolding.is_known:
            raise ConfigurationError(
                "--bytenet-unfold auto found no training pairs to fit its line to. Give it as "
                "--bytenet-unfold 1.2,0, or load a trained checkpoint."
            )
        real = src_tokens.ne(self.padding)
        lengths = real.sum(1)
        # real tokens first, in their order, wherever fairseq has put the padding
        order = (~real).to(torch.uint8).sort(dim=1, stable=True)[1]
        tokens = src_tokens.gather(1, order)
        columns = self.unfolding(lengths)
        time = int(columns.max())
        states = self.embed_tokens(tokens)  # the padding's is zero
        states = functional.pad(states, (0, 0, 0, max(0, time - states.size(1))))[:, :time]
        positions = RealPositions.of_lengths(columns, time)
        encoded = positions.spread(self.stack(positions.rows(states), positions))
        return _encoder_out(encoded, columns)

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Any]], new_order: Tensor
    ) -> dict[str, list[Any]]:
        """Return what was encoded, for other rows of the target."""
        encoded = encoder_out["encoder_out"][0].index_select(1, new_order)
        columns = encoder_out["columns"][0].index_select(0, new_order)
        return _encoder_out(encoded.transpose(0, 1), columns)

    def max_positions(self) -> int:
        """Return how long a source may be."""
        return LONGEST


class ByteNetDecoder(FairseqIncrementalDecoder):
    """Writes over the columns of the encoder, the n-th token over the n-th."""

    scores_features_alone = True
    """Its scores are what `output_layer` makes of its features, and no more."""

    def __init__(self, cfg: ByteNetConfig, dictionary: Any) -> None:
        super().__init__(dictionary)
        self.embed_tokens = _embedding(len(dictionary), cfg, dictionary.pad())
        sizes = _decoder_sizes(cfg)
        self.stack = DilatedStack(sizes)
        self.output = nn.Linear(sizes.dim, len(dictionary))
        draw_weights(self.output, sizes.init)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return states [batch, time, 2 dim] for ids [batch, time], or for the last one alone."""
        assert encoder_out is not None
        columns = encoder_out["encoder_out"][0].transpose(0, 1)
        time = prev_output_tokens.size(1)
        if incremental_state is None:
            beside = functional.pad(columns[:, :time], (0, 0, 0, max(0, time - columns.size(1))))
            states = torch.cat([beside, self.embed_tokens(prev_output_tokens)], 2)
            positions = RealPositions.all_of(prev_output_tokens)
            features = positions.spread(self.stack(positions.rows(states), positions))
        else:
            word = self.embed_tokens(prev_output_tokens[:, -1])
            step = time - 1
            beside = columns[:, step] if step < columns.size(1) else torch.zeros_like(word)
            rows = torch.cat([beside, word], 1)
            past = self._past(incremental_state, rows)
            features = self.stack.step(rows, past, step).unsqueeze(1)
        return features, {"attn": [None], "inner_states": []}

    def _past(self, incremental_state: dict[str, Any], rows: Tensor) -> Tensor:
        """Return what the blocks keep of the steps before [rows, frames, width]."""
        if STATE not in incremental_state:
            blank = rows.new_zeros(len(rows), self.stack.frames, self.stack.width)
            incremental_state[STATE] = {"past": blank}
        past: Tensor = incremental_state[STATE]["past"]
        return past

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return scores [batch, time, vocabulary] for ids [batch, time], or for the last one."""
        features, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return features if features_only else self.output_layer(features), extra

    def output_layer(self, features: Tensor, **_: Any) -> Tensor:
        """Score the vocabulary."""
        scores: Tensor = self.output(features)
        return scores

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Go on with other rows."""
        if STATE in incremental_state:
            kept = incremental_state[STATE]
            kept["past"] = kept["past"].index_select(0, new_order)

    def max_positions(self) -> int:
        """Return how long a target may be."""
        return LONGEST


@register_model("bytenet", dataclass=ByteNetConfig)
class ByteNet(FairseqEncoderDecoderModel):
    """An encoder and a decoder of dilated convolutions, one upon the other."""

    @classmethod
    def build_model(cls, cfg: ByteNetConfig, task: Any) -> "ByteNet":
        """Make the model, and fit the line of its columns to the task's training pairs."""
        _check(cfg, task)
        encoder = ByteNetEncoder(cfg, task.source_dictionary, _unfolding(cfg, task))
        return cls(encoder, ByteNetDecoder(cfg, task.target_dictionary))


def _embedding(size: int, cfg: ByteNetConfig, padding: int) -> nn.Embedding:
    """Return embeddings; SELU asks for a variance of 1."""
    embedding = nn.Embedding(size, cfg.bytenet_dim, padding)
    is_selu = str(cfg.bytenet_activation) == "selu"
    nn.init.normal_(embedding.weight, std=1.0 if is_selu else cfg.bytenet_dim**-0.5)
    nn.init.zeros_(embedding.weight[padding])
    return embedding


def _encoder_out(encoded: Tensor, columns: Tensor) -> dict[str, list[Any]]:
    """Return what fairseq expects of an encoder, of states [batch, time, dim]."""
    places = torch.arange(encoded.size(1), device=columns.device)
    return {
        "encoder_out": [encoded.transpose(0, 1)],
        "encoder_padding_mask": [places >= columns.unsqueeze(1)],
        "columns": [columns],
    }


def _encoder_sizes(cfg: ByteNetConfig) -> StackSizes:
    norm = str(cfg.bytenet_encoder_norm)
    return _sizes(cfg, cfg.bytenet_dim, cfg.bytenet_encoder_kernel, norm, is_causal=False)


def _decoder_sizes(cfg: ByteNetConfig) -> StackSizes:
    norm = str(cfg.bytenet_decoder_norm)
    return _sizes(cfg, 2 * cfg.bytenet_dim, cfg.bytenet_decoder_kernel, norm, is_causal=True)


def _sizes(cfg: ByteNetConfig, dim: int, kernel: int, norm: str, is_causal: bool) -> StackSizes:
    return StackSizes(
        dim=dim,
        kernel=kernel,
        sets=cfg.bytenet_sets,
        dilations=_dilations(cfg.bytenet_dilations),
        is_causal=is_causal,
        is_compressed=not cfg.bytenet_uncompressed,
        norm=norm,
        activation=str(cfg.bytenet_activation),
        init=str(cfg.bytenet_init),
        residual_scale=cfg.bytenet_residual_scale,
        dropout=cfg.dropout,
    )


def _dilations(given: str) -> tuple[int, ...]:
    numbers = parse_integers(str(given), least=1)
    if numbers is None:
        raise ConfigurationError(
            f"--bytenet-dilations is {given!r}; expected numbers above 0, as in 1,2,4,8,16."
        )
    return numbers


def _unfolding(cfg: ByteNetConfig, task: Any) -> Unfolding:
    """Return the line that was given, or fitted, or one that a checkpoint will bring."""
    if cfg.bytenet_unfold != "auto":
        line = parse_length_bound(str(cfg.bytenet_unfold))
        if line is None or max(line) >= LONGEST:
            raise ConfigurationError(
                f"--bytenet-unfold is {cfg.bytenet_unfold!r}; expected auto, or a,b with numbers "
                "of 0 or more, as in 1.2,0."
            )
        return Unfolding(*line)
    lengths = training_lengths(task)
    return (
        Unfolding(*fit_length_bound(*lengths, cfg.bytenet_unfold_share)) if lengths else Unfolding()
    )


def _check(cfg: ByteNetConfig, task: Any) -> None:
    """Refuse what the model can not be."""
    least = {"bytenet_dim": 2, "bytenet_sets": 1, "bytenet_encoder_kernel": 1}
    for name, smallest in {**least, "bytenet_decoder_kernel": 1}.items():
        if getattr(cfg, name) < smallest:
            option = flag(name)
            raise ConfigurationError(
                f"{option} is {getattr(cfg, name)}; expected {smallest} or more."
            )
    if cfg.bytenet_encoder_kernel % 2 == 0:
        raise ConfigurationError(
            f"--bytenet-encoder-kernel is {cfg.bytenet_encoder_kernel}; expected an odd number, "
            "which has a middle."
        )
    if cfg.bytenet_dim % 2 and not cfg.bytenet_uncompressed:
        raise ConfigurationError(
            f"--bytenet-dim is {cfg.bytenet_dim}; compressed blocks need an even number."
        )
    if cfg.bytenet_residual_scale < 0:
        raise ConfigurationError(
            f"--bytenet-residual-scale is {cfg.bytenet_residual_scale}; expected 0 or more."
        )
    if not 0 < cfg.bytenet_unfold_share <= 1:
        raise ConfigurationError(
            f"--bytenet-unfold-share is {cfg.bytenet_unfold_share}; expected a share above 0, "
            "at most 1."
        )
    if getattr(getattr(task, "cfg", None), "left_pad_target", False):
        raise ConfigurationError(
            "--left-pad-target does not go with a bytenet, whose n-th word stands over the n-th "
            "column. Drop it."
        )
    _check_choices(cfg)


def _check_choices(cfg: ByteNetConfig) -> None:
    """Refuse words that are no choices: not every way into fairseq looks at them."""
    choices = {
        "bytenet_encoder_norm": NORMS,
        "bytenet_decoder_norm": ("layer", "none"),
        "bytenet_activation": tuple(ACTIVATIONS),
        "bytenet_init": INITS,
    }
    for name, words in choices.items():
        if str(getattr(cfg, name)) not in words:
            raise ConfigurationError(
                f"{flag(name)} is {str(getattr(cfg, name))!r}; expected {', '.join(words)}."
            )


@register_model_architecture("bytenet", "bytenet_simplified")
def bytenet_simplified(args: Any) -> None:
    """The slides' Simplified ByteNet: no compression, half the channels, a third of the norms."""
    fill_defaults(args, bytenet_uncompressed=True, bytenet_dim=200)


@register_model_architecture("bytenet", "bytenet_no_norm")
def bytenet_no_norm(args: Any) -> None:
    """The slides' ByteNet without norms."""
    fill_defaults(args, bytenet_encoder_norm="none", bytenet_decoder_norm="none")


@register_model_architecture("bytenet", "bytenet_selu")
def bytenet_selu(args: Any) -> None:
    """The slides' ByteNet without norms, with SELU and the initialization that goes with it."""
    fill_defaults(args, bytenet_activation="selu", bytenet_init="lecun")
    bytenet_no_norm(args)


@register_model_architecture("bytenet", "bytenet_digits")
def bytenet_digits(args: Any) -> None:
    """The size for the synthetic digits."""
    fill_defaults(args, bytenet_dim=20)


@register_model_architecture("bytenet", "bytenet_v2")
def bytenet_v2(args: Any) -> None:
    """The size of the later version of Kalchbrenner et al."""
    fill_defaults(args, bytenet_dim=800, bytenet_sets=6, bytenet_encoder_kernel=3)
    fill_defaults(args, bytenet_encoder_norm="layer")
