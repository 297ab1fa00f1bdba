"""Transformer with pseudo-bidirectional decoding (PBD).

The decoder attends to the source as a pseudo future and, by default, shares the encoder's layers.
"""

import math
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.errors import ConfigurationError, reject_options
from fairseq_ssl.models.common import (
    FeatureDecoder,
    check_heads,
    encoder_sizes,
    register_architectures,
    register_model,
    require_joint_dictionary,
)
from fairseq_ssl.modules.attention import (
    EncodedSource,
    IncrementalTarget,
    KeysValues,
    SourceContext,
    TargetContext,
    TeacherForcedTarget,
)
from fairseq_ssl.modules.prefix_alignment import AlignedIncrementalTarget, PrefixAlignment
from fairseq_ssl.modules.transformer_layers import BlockSizes, DecoderLayer, TransformerBlock
from fairseq_ssl.options import option

STATE = "pseudo_bidirectional"
FUTURE_LAYERS = ("input", "output")
ALIGNMENTS = ("position", "prefix")


@dataclass
class PseudoBidirectionalConfig(FairseqDataclass):
    """Options of the model. The default sizes are from fairseq's architecture `transformer`."""

    encoder_layers: int = option(6, "number of layers in the encoder and in the decoder", low=1)
    encoder_embed_dim: int = option(
        512, "embedding dimension, a multiple of the number of attention heads", low=4
    )
    encoder_ffn_embed_dim: int = option(2048, "feed-forward dimension", low=1)
    encoder_attention_heads: int = option(8, "number of attention heads", low=1)
    encoder_normalize_before: bool = option(
        False, "apply layer norm before each sublayer", usual="after"
    )
    dropout: float = option(0.1, "dropout probability", low=0, high=1)
    attention_dropout: float = option(
        0.0, "dropout probability of attention weights", low=0, high=1
    )
    activation_dropout: float = option(
        0.0, "dropout probability within feed-forward networks", low=0, high=1
    )
    max_source_positions: int = option(1024, "maximum source length in tokens", low=1)
    max_target_positions: int = option(1024, "maximum target length in tokens", low=1)
    pseudo_future_layer: ChoiceEnum(FUTURE_LAYERS) = option(  # type: ignore[valid-type]
        "input",
        "pseudo future of a decoder layer: the input or the output of the encoder layer with the "
        "same index",
        choices=FUTURE_LAYERS,
    )
    pseudo_future_alignment: ChoiceEnum(ALIGNMENTS) = option(  # type: ignore[valid-type]
        "position",
        "start of the pseudo future in the source; position: after the position of the target "
        "token; prefix: after the source prefix with the smallest edit distance to the target "
        "prefix (not in the paper)",
        choices=ALIGNMENTS,
    )
    no_pseudo_future: bool = option(
        False, "attend only to the target's past, without a pseudo future (PBD, table 2)"
    )
    no_share_encoder_decoder: bool = option(
        False, "use separate layers in the decoder instead of the encoder layers (PBD, table 2)"
    )


class SharedEncoder(FairseqEncoder):
    """A Transformer encoder that shares embeddings and, by default, layers with the decoder."""

    def __init__(self, cfg: PseudoBidirectionalConfig, dictionary: Any) -> None:
        super().__init__(dictionary)
        sizes = _block_sizes(cfg)
        self.padding = dictionary.pad()
        self.dropout = cfg.dropout
        self.scale = math.sqrt(sizes.dim)
        self.max_length = cfg.max_source_positions
        self.embed_tokens = nn.Embedding(len(dictionary), sizes.dim, self.padding)
        nn.init.normal_(self.embed_tokens.weight, std=sizes.dim**-0.5)
        nn.init.zeros_(self.embed_tokens.weight[self.padding])
        self.embed_positions = SinusoidalPositionalEmbedding(
            sizes.dim, self.padding, max(self.max_length, cfg.max_target_positions) + 2
        )
        self.layers = nn.ModuleList(TransformerBlock(sizes) for _ in range(cfg.encoder_layers))
        self.layer_norm = nn.LayerNorm(sizes.dim) if sizes.norm_before else nn.Identity()

    def embed(self, tokens: Tensor, is_step: bool = False) -> Tensor:
        """Embed `tokens` [batch, time], or only the last token of each row if `is_step`."""
        step: dict[str, Any] | None = {} if is_step else None
        positions = self.embed_positions(tokens, incremental_state=step)
        tokens = tokens[:, -1:] if is_step else tokens
        states = self.scale * self.embed_tokens(tokens) + positions
        return functional.dropout(states, self.dropout, self.training)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any
    ) -> dict[str, list[Any]]:
        """Encode ids [batch, time], padded on either side. Return an output in fairseq's format.

        The key `encoded` contains the `EncodedSource` for the decoder.
        """
        is_padding = src_tokens.eq(self.padding)
        is_padded = bool(is_padding.any())
        mask = ~is_padding[:, None, None, :] if is_padded else None
        states = self.embed(src_tokens)
        layer_states, keys_values = [states], []
        for layer in self.layers:
            states, own = layer(states, mask)
            layer_states.append(states)
            keys_values.append(own)
        states = self.layer_norm(states)
        encoded = EncodedSource(
            src_tokens, states, tuple(layer_states), tuple(keys_values), ~is_padding, is_padded
        )
        return _encoder_out(states.transpose(0, 1), is_padding, encoded)

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Any]], new_order: Tensor
    ) -> dict[str, list[Any]]:
        """Return the encoder output for the target rows with the indices `new_order`."""
        return _encoder_out(
            encoder_out["encoder_out"][0].index_select(1, new_order),
            encoder_out["encoder_padding_mask"][0].index_select(0, new_order),
            encoder_out["encoded"][0].select_rows(new_order),
        )

    def max_positions(self) -> int:
        """Return the maximum source length in tokens."""
        return self.max_length


class PseudoBidirectionalDecoder(FeatureDecoder):
    """A decoder whose self-attention also attends to the source as a pseudo future."""

    def __init__(
        self, cfg: PseudoBidirectionalConfig, dictionary: Any, encoder: SharedEncoder
    ) -> None:
        super().__init__(dictionary)
        sizes = _block_sizes(cfg)
        self.max_length = cfg.max_target_positions
        self.has_future = not cfg.no_pseudo_future
        self.is_shared = not cfg.no_share_encoder_decoder
        self.is_aligned = self.has_future and str(cfg.pseudo_future_alignment) == "prefix"
        self.copies_output = str(cfg.pseudo_future_layer) == "output"
        self.need_attn = True
        self.layers = nn.ModuleList(
            DecoderLayer(sizes, has_segments=self.has_future) for _ in range(cfg.encoder_layers)
        )
        # In a tuple, the encoder is not a submodule, so each shared weight has only one name.
        self._encoder = (encoder,)
        if not self.is_shared:
            self.blocks = nn.ModuleList(TransformerBlock(sizes) for _ in encoder.layers)
            self.layer_norm = nn.LayerNorm(sizes.dim) if sizes.norm_before else nn.Identity()

    @property
    def parts(self) -> list[tuple[DecoderLayer, TransformerBlock]]:
        """Each decoder layer with its Transformer block, which may be shared with the encoder."""
        blocks = self._encoder[0].layers if self.is_shared else self.blocks
        return list(zip(self.layers, blocks, strict=True))  # type: ignore[arg-type]

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **_: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return features [batch, time, dim] and extra outputs for input ids [batch, time].

        With `incremental_state`, only the features of the last position are returned.
        """
        assert encoder_out is not None
        encoder, encoded = self._encoder[0], encoder_out["encoded"][0]
        if incremental_state is None:
            target: TargetContext = self._teacher_forced(prev_output_tokens, encoded)
            source = self._source(encoded)
        else:
            target, source = self._step(prev_output_tokens[:, -1:], encoded, incremental_state)
        states = encoder.embed(prev_output_tokens, is_step=incremental_state is not None)
        attn = None
        for i, (layer, block) in enumerate(self.parts):
            states, query = layer(i, block, states, target, source)
            if self.need_attn and not self.training and i == len(self.layers) - 1:
                attn = source.attention_weights(i, query)
        norm = encoder.layer_norm if self.is_shared else self.layer_norm
        return norm(states), {"attn": [attn], "inner_states": []}

    def _teacher_forced(self, tokens: Tensor, encoded: EncodedSource) -> TeacherForcedTarget:
        """Return the self-attention context for complete targets `tokens` [rows, time]."""
        real, consumed = tokens.ne(self._encoder[0].padding), None
        if self.is_aligned:
            rows = encoded.row_indices()
            alignment = PrefixAlignment(encoded.tokens[rows], encoded.real[rows])
            consumed = alignment.extend_all(tokens, real)
        return TeacherForcedTarget(real, encoded, self._future(encoded), consumed)

    def _step(
        self, tokens: Tensor, encoded: EncodedSource, state: dict[str, Any]
    ) -> tuple[IncrementalTarget | AlignedIncrementalTarget, SourceContext]:
        """Return the target context, extended by `tokens` [rows, 1], and the source context.

        Both contexts are created in the first step and stored in the incremental state.
        """
        if STATE not in state:
            future = self._future(encoded)
            started = (
                AlignedIncrementalTarget(encoded, future)
                if self.is_aligned and future is not None
                else IncrementalTarget(encoded, future)
            )
            state[STATE] = (started, self._source(encoded))
        target, source = state[STATE]
        target.advance(tokens)
        return target, source

    def _future(self, encoded: EncodedSource) -> list[KeysValues] | None:
        """Return each layer's keys and values of the pseudo future, or None without a future."""
        if not self.has_future:
            return None
        if self.is_shared and not self.copies_output:
            pairs = zip(self.parts, encoded.keys_values, strict=True)
            return [layer.reuse_as_future(block, own) for (layer, block), own in pairs]
        states = encoded.layer_states[1:] if self.copies_output else encoded.layer_states[:-1]
        return [
            layer.project_future(block, layer_states)
            for (layer, block), layer_states in zip(self.parts, states, strict=True)
        ]

    def _source(self, encoded: EncodedSource) -> SourceContext:
        return SourceContext(encoded, [layer.encoder_attn for layer, _ in self.parts])

    def output_layer(self, features: Tensor, **_: Any) -> Tensor:
        """Return the logits [batch, time, vocabulary] for features, using tied embeddings."""
        return functional.linear(features, self._encoder[0].embed_tokens.weight)

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Select the rows of the incremental state with the indices `new_order`."""
        for context in incremental_state.get(STATE, ()):
            context.reorder(new_order)

    def max_positions(self) -> int:
        """Return the maximum target length in tokens."""
        return self.max_length


@register_model("pseudo_bidirectional_transformer", dataclass=PseudoBidirectionalConfig)
class PseudoBidirectionalTransformer(FairseqEncoderDecoderModel):
    """A Transformer for tasks whose source and target differ in few tokens, such as GEC (PBD)."""

    @classmethod
    def build_model(
        cls, cfg: PseudoBidirectionalConfig, task: Any
    ) -> "PseudoBidirectionalTransformer":
        """Build the model. The task must have a joint dictionary."""
        _check(cfg, task)
        encoder = SharedEncoder(cfg, task.source_dictionary)
        decoder = PseudoBidirectionalDecoder(cfg, task.target_dictionary, encoder)
        return cls(encoder, decoder)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare for decoding. Compute attention weights only for alignments or `replace_unk`."""
        super().prepare_for_inference_(cfg)
        needs = cfg.generation.print_alignment or cfg.generation.replace_unk is not None
        self.decoder.need_attn = bool(needs)

    def load_state_dict(self, state_dict: dict[str, Any], *more: Any, **options: Any) -> Any:
        """Load a checkpoint.

        Raise ConfigurationError if the checkpoint is from a fairseq Transformer, or if only one of
        the checkpoint and this model shares layers between encoder and decoder.
        """
        _check_kind(state_dict, self.decoder)
        return super().load_state_dict(state_dict, *more, **options)


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


def _encoder_out(
    states: Tensor, is_padding: Tensor, encoded: EncodedSource
) -> dict[str, list[Any]]:
    """Return an encoder output in fairseq's format, with the additional key `encoded`."""
    return {
        "encoder_out": [states],  # [time, rows, dim]
        "encoder_padding_mask": [is_padding],  # [rows, time]
        "encoded": [encoded],
    }


def _check(cfg: PseudoBidirectionalConfig, task: Any) -> None:
    """Reject invalid options, and source and target dictionaries that differ."""
    require_joint_dictionary(task.source_dictionary, task.target_dictionary, "this model")
    check_heads(cfg)
    if cfg.no_pseudo_future:
        is_aligned = str(cfg.pseudo_future_alignment) != "position"
        reject_options("--no-pseudo-future", {"pseudo_future_alignment": is_aligned})


def _check_kind(state: dict[str, Any], decoder: PseudoBidirectionalDecoder) -> None:
    """Raise ConfigurationError if a checkpoint does not fit `decoder`. See `load_state_dict`."""
    if "decoder.layers.0.self_attn.q_proj.weight" in state:
        raise ConfigurationError(
            "The checkpoint contains a fairseq Transformer, whose decoder layers have a different "
            "structure. Expected a checkpoint of a pseudo_bidirectional_transformer."
        )
    is_shared = not any(key.startswith("decoder.blocks.") for key in state)
    if is_shared != decoder.is_shared:
        kinds = {True: "shares its layers with the encoder", False: "has its own layers"}
        raise ConfigurationError(
            f"The decoder of the checkpoint {kinds[is_shared]}, but the decoder of this model "
            f"{kinds[decoder.is_shared]}. Set --no-share-encoder-decoder for both models or none."
        )


register_architectures(
    "pseudo_bidirectional_transformer",
    {
        # Transformer big (Vaswani et al., 2017) with the dropout of PBD, section 4.1
        "pseudo_bidirectional_transformer_big": {
            **encoder_sizes(layers=6, dim=1024, inner_dim=4096, heads=16),
            "dropout": 0.2,
        },
        "pseudo_bidirectional_transformer_big_12": {
            **encoder_sizes(layers=12, dim=1024, inner_dim=4096, heads=16),
            "dropout": 0.2,
        },
        # the models for spelling and OCR correction (PBD, section 4.2)
        "pseudo_bidirectional_transformer_small": encoder_sizes(2, 200, 400, 4),
        "pseudo_bidirectional_transformer_small_4": encoder_sizes(4, 200, 400, 4),
    },
)
