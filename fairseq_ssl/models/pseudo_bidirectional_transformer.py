"""Pseudo-bidirectional decoding: the source is the decoder's future, one stack for both (PBD)."""

import math
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.architecture_defaults import fill_defaults, fill_sizes
from fairseq_ssl.modules.attention import (
    Encoded,
    IncrementalTarget,
    KeysValues,
    SourceContext,
    TargetContext,
    WholeTarget,
)
from fairseq_ssl.modules.transformer_layers import BlockSizes, DecoderLayer, TransformerBlock

STATE = "pseudo_bidirectional"


@dataclass
class PseudoBidirectionalConfig(FairseqDataclass):
    """The options of the model; its defaults are the size of fairseq's `transformer`."""

    encoder_layers: int = field(
        default=6, metadata={"help": "layers, of the encoder and of the decoder (default: 6)"}
    )
    encoder_embed_dim: int = field(
        default=512, metadata={"help": "size of embeddings and states (default: 512)"}
    )
    encoder_ffn_embed_dim: int = field(
        default=2048, metadata={"help": "size inside a layer's two linear maps (default: 2048)"}
    )
    encoder_attention_heads: int = field(
        default=8, metadata={"help": "heads of attention (default: 8)"}
    )
    encoder_normalize_before: bool = field(
        default=False,
        metadata={"help": "norms at the beginning of each part of a layer, not at its end"},
    )
    dropout: float = field(
        default=0.1, metadata={"help": "dropout of states, 0 to 1 (default: 0.1)"}
    )
    attention_dropout: float = field(
        default=0.0, metadata={"help": "dropout of attention, 0 to 1 (default: 0)"}
    )
    activation_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout between a layer's two linear maps, 0 to 1 (default: 0)"},
    )
    max_source_positions: int = field(
        default=1024, metadata={"help": "longest source, in tokens (default: 1024)"}
    )
    max_target_positions: int = field(
        default=1024, metadata={"help": "longest target, in tokens (default: 1024)"}
    )
    pseudo_future_layer: ChoiceEnum(["input", "output"]) = field(  # type: ignore[valid-type]
        default="input",
        metadata={
            "help": "which states of the source a layer of the decoder copies: those that enter "
            "the encoder's layer of the same number, or those that leave it (default: input)"
        },
    )
    no_pseudo_future: bool = field(
        default=False,
        metadata={"help": "a decoder that sees its past alone (PBD, table 2)"},
    )
    no_share_encoder_decoder: bool = field(
        default=False,
        metadata={"help": "layers of its own for the decoder (PBD, table 2)"},
    )


class SharedEncoder(FairseqEncoder):
    """The stack, and the embeddings, that the decoder uses too."""

    def __init__(self, cfg: PseudoBidirectionalConfig, dictionary: Any) -> None:
        super().__init__(dictionary)
        sizes = _block_sizes(cfg)
        self.padding = dictionary.pad()
        self.dropout = cfg.dropout
        self.scale = math.sqrt(sizes.dim)
        self.longest = cfg.max_source_positions
        self.embed_tokens = nn.Embedding(len(dictionary), sizes.dim, self.padding)
        nn.init.normal_(self.embed_tokens.weight, std=sizes.dim**-0.5)
        nn.init.zeros_(self.embed_tokens.weight[self.padding])
        self.embed_positions = SinusoidalPositionalEmbedding(
            sizes.dim, self.padding, max(self.longest, cfg.max_target_positions) + 2
        )
        self.layers = nn.ModuleList(TransformerBlock(sizes) for _ in range(cfg.encoder_layers))
        self.layer_norm = nn.LayerNorm(sizes.dim) if sizes.norm_before else nn.Identity()

    def embedded(self, tokens: Tensor, is_step: bool = False) -> Tensor:
        """Return the first layer's states of `tokens` [batch, time], or of the last one alone."""
        step: dict[str, Any] | None = {} if is_step else None
        positions = self.embed_positions(tokens, incremental_state=step)
        tokens = tokens[:, -1:] if is_step else tokens
        states = self.scale * self.embed_tokens(tokens) + positions
        return functional.dropout(states, self.dropout, self.training)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any
    ) -> dict[str, list[Any]]:
        """Encode ids [batch, time], padded on either side."""
        is_padding = src_tokens.eq(self.padding)
        is_padded = bool(is_padding.any())
        seen = ~is_padding[:, None, None, :] if is_padded else None
        states = self.embedded(src_tokens)
        between, own = [states], []
        for layer in self.layers:
            states, keys_values = layer(states, seen)
            between.append(states)
            own.append(keys_values)
        states = self.layer_norm(states)
        encoded = Encoded(states, tuple(between), tuple(own), ~is_padding, is_padded)
        return _encoder_out(states.transpose(0, 1), is_padding, encoded)

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Any]], new_order: Tensor
    ) -> dict[str, list[Any]]:
        """Return what was encoded, for other rows of the target."""
        return _encoder_out(
            encoder_out["encoder_out"][0].index_select(1, new_order),
            encoder_out["encoder_padding_mask"][0].index_select(0, new_order),
            encoder_out["encoded"][0].of_rows(new_order),
        )

    def max_positions(self) -> int:
        """Return how long a source may be."""
        return self.longest


class PseudoBidirectionalDecoder(FairseqIncrementalDecoder):
    """A decoder whose self-attention also sees what the source says further on."""

    scores_features_alone = True
    """Its scores are what `output_layer` makes of its features, and no more."""

    def __init__(
        self, cfg: PseudoBidirectionalConfig, dictionary: Any, encoder: SharedEncoder
    ) -> None:
        super().__init__(dictionary)
        sizes = _block_sizes(cfg)
        self.longest = cfg.max_target_positions
        self.has_future = not cfg.no_pseudo_future
        self.is_shared = not cfg.no_share_encoder_decoder
        self.copies_output = str(cfg.pseudo_future_layer) == "output"
        self.need_attn = True
        self.layers = nn.ModuleList(
            DecoderLayer(sizes, has_segments=self.has_future) for _ in range(cfg.encoder_layers)
        )
        # What a tuple holds is not registered: a shared weight has one name, the encoder's.
        self._encoder = (encoder,)
        if not self.is_shared:
            self.blocks = nn.ModuleList(TransformerBlock(sizes) for _ in encoder.layers)
            self.layer_norm = nn.LayerNorm(sizes.dim) if sizes.norm_before else nn.Identity()

    @property
    def parts(self) -> list[tuple[DecoderLayer, TransformerBlock]]:
        """Each layer with its block, which may be the encoder's."""
        blocks = self._encoder[0].layers if self.is_shared else self.blocks
        return list(zip(self.layers, blocks, strict=True))  # type: ignore[arg-type]

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return states [batch, time, dim] for ids [batch, time], or for the last one alone."""
        assert encoder_out is not None
        encoder, encoded = self._encoder[0], encoder_out["encoded"][0]
        target: TargetContext
        if incremental_state is None:
            real = prev_output_tokens.ne(encoder.padding)
            target = WholeTarget(real, encoded, self.future(encoded))
            source = self.source(encoded)
        else:
            target, source = self._step(encoded, incremental_state)
        states = encoder.embedded(prev_output_tokens, is_step=incremental_state is not None)
        attn = None
        for i, (layer, block) in enumerate(self.parts):
            states, query = layer(i, block, states, target, source)
            if self.need_attn and not self.training and i == len(self.layers) - 1:
                attn = source.shares(i, query)
        norm = encoder.layer_norm if self.is_shared else self.layer_norm
        return norm(states), {"attn": [attn], "inner_states": []}

    def _step(
        self, encoded: Encoded, state: dict[str, Any]
    ) -> tuple[IncrementalTarget, SourceContext]:
        """Return what the next token sees, from what was kept of those before."""
        if STATE not in state:
            growing = IncrementalTarget(encoded, self.future(encoded))
            state[STATE] = (growing, self.source(encoded))
        target, source = state[STATE]
        target.advance()
        return target, source

    def future(self, encoded: Encoded) -> list[KeysValues] | None:
        """Return what each layer copies from the source, a sentence a row."""
        if not self.has_future:
            return None
        if self.is_shared and not self.copies_output:
            pairs = zip(self.parts, encoded.own, strict=True)
            return [layer.copied_from(block, own) for (layer, block), own in pairs]
        states = encoded.between[1:] if self.copies_output else encoded.between[:-1]
        return [
            layer.copied(block, copied)
            for (layer, block), copied in zip(self.parts, states, strict=True)
        ]

    def source(self, encoded: Encoded) -> SourceContext:
        """Return the source as the layers attend to it."""
        return SourceContext(encoded, [layer.encoder_attn for layer, _ in self.parts])

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
        return functional.linear(features, self._encoder[0].embed_tokens.weight)

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Go on with other rows."""
        for context in incremental_state.get(STATE, ()):
            context.reorder(new_order)

    def max_positions(self) -> int:
        """Return how long a target may be."""
        return self.longest


@register_model("pseudo_bidirectional_transformer", dataclass=PseudoBidirectionalConfig)
class PseudoBidirectionalTransformer(FairseqEncoderDecoderModel):
    """A Transformer for sources and targets that differ in few places."""

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Return no models: none are published."""
        return {}

    @classmethod
    def build_model(
        cls, cfg: PseudoBidirectionalConfig, task: Any
    ) -> "PseudoBidirectionalTransformer":
        """Make the model for a task whose two sides have one dictionary."""
        _check(cfg, task)
        encoder = SharedEncoder(cfg, task.source_dictionary)
        decoder = PseudoBidirectionalDecoder(cfg, task.target_dictionary, encoder)
        return cls(encoder, decoder)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Keep the shares of attention only where the command needs them."""
        super().prepare_for_inference_(cfg)
        wanted = cfg.generation.print_alignment or cfg.generation.replace_unk is not None
        self.decoder.need_attn = bool(wanted)

    def load_state_dict(
        self,
        state_dict: dict[str, Any],
        strict: bool = True,
        model_cfg: Any = None,
        args: Any = None,
    ) -> Any:
        """Load a checkpoint of the same kind: shared, or with a decoder of its own."""
        _check_kind(state_dict, self.decoder)
        return super().load_state_dict(state_dict, strict, model_cfg, args)


def _block_sizes(cfg: PseudoBidirectionalConfig) -> BlockSizes:
    return BlockSizes(
        dim=cfg.encoder_embed_dim,
        inner_dim=cfg.encoder_ffn_embed_dim,
        heads=cfg.encoder_attention_heads,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        norm_before=cfg.encoder_normalize_before,
    )


def _encoder_out(states: Tensor, is_padding: Tensor, encoded: Encoded) -> dict[str, list[Any]]:
    """Return what fairseq expects of an encoder, and what the decoder here works with."""
    return {
        "encoder_out": [states],  # [time, rows, dim]
        "encoder_padding_mask": [is_padding],  # [rows, time]
        "encoded": [encoded],
    }


def _check(cfg: PseudoBidirectionalConfig, task: Any) -> None:
    """Refuse what the model can not be."""
    if task.source_dictionary != task.target_dictionary:
        raise ConfigurationError(
            "Source and target have other dictionaries, and this model has one for both. "
            "Binarize with fairseq-preprocess --joined-dictionary."
        )
    if cfg.encoder_embed_dim % cfg.encoder_attention_heads:
        raise ConfigurationError(
            f"--encoder-embed-dim {cfg.encoder_embed_dim} is no multiple of "
            f"--encoder-attention-heads {cfg.encoder_attention_heads}."
        )
    if str(cfg.pseudo_future_layer) not in ("input", "output"):
        raise ConfigurationError(
            f"--pseudo-future-layer is {str(cfg.pseudo_future_layer)!r}; expected input or output."
        )


def _check_kind(state: dict[str, Any], decoder: PseudoBidirectionalDecoder) -> None:
    """Refuse a checkpoint whose decoder shares less, or more, than this one."""
    if "decoder.layers.0.self_attn.q_proj.weight" in state:
        raise ConfigurationError(
            "The checkpoint is one of fairseq's Transformer, whose decoder has layers of its own. "
            "A pseudo_bidirectional_transformer can not start from it."
        )
    is_shared = not any(key.startswith("decoder.blocks.") for key in state)
    if is_shared != decoder.is_shared:
        kinds = {True: "shares its layers with the encoder", False: "has layers of its own"}
        raise ConfigurationError(
            f"The decoder of the checkpoint {kinds[is_shared]}, and that of this model "
            f"{kinds[decoder.is_shared]}. Give --no-share-encoder-decoder to both or to none."
        )


@register_model_architecture(
    "pseudo_bidirectional_transformer", "pseudo_bidirectional_transformer_big"
)
def pseudo_bidirectional_transformer_big(args: Any) -> None:
    """The big size of Vaswani et al., with the dropout of PBD, section 4.1."""
    fill_sizes(args, layers=6, dim=1024, inner_dim=4096, heads=16)
    fill_defaults(args, dropout=0.2)


@register_model_architecture(
    "pseudo_bidirectional_transformer", "pseudo_bidirectional_transformer_big_12"
)
def pseudo_bidirectional_transformer_big_12(args: Any) -> None:
    """The same with 12 layers (PBD, section 4.1)."""
    fill_sizes(args, layers=12, dim=1024, inner_dim=4096, heads=16)
    pseudo_bidirectional_transformer_big(args)


@register_model_architecture(
    "pseudo_bidirectional_transformer", "pseudo_bidirectional_transformer_small"
)
def pseudo_bidirectional_transformer_small(args: Any) -> None:
    """The size for spelling and OCR (PBD, section 4.2)."""
    fill_sizes(args, layers=2, dim=200, inner_dim=400, heads=4)


@register_model_architecture(
    "pseudo_bidirectional_transformer", "pseudo_bidirectional_transformer_small_4"
)
def pseudo_bidirectional_transformer_small_4(args: Any) -> None:
    """The same with 4 layers (PBD, section 4.2)."""
    fill_sizes(args, layers=4, dim=200, inner_dim=400, heads=4)
