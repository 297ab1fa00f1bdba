"""fairseq's Transformer decoder for one position of each hypothesis, on a CPU.

`Product` multiplies with weights in the layout of oneDNN. `Cache` has the keys and values of an
attention. `LayerStep` and `DecoderStep` compute what the decoder does, up to rounding.
"""

from __future__ import annotations

import functools
import math
import platform
from typing import Any
from weakref import WeakKeyDictionary

import torch
from fairseq.models.fairseq_model import BaseFairseqModel
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import MultiheadAttention, TransformerDecoderLayer
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import weight_version

BLOCK = 4096
"""Words of the vocabulary whose logits are computed at once. They fit into the cache of a core."""


class Product:
    """The product with a weight matrix, plus a bias, packed for oneDNN if possible."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> None:
        self.weight = pack(weight) if can_pack() else weight
        self.bias = bias
        self.relu = relu

    @classmethod
    def from_layers(cls, *layers: Any, relu: bool = False) -> Product:
        """Return the product with the weights of several layers, whose outputs are concatenated."""
        biases = [layer.bias for layer in layers if layer.bias is not None]
        weight = torch.cat([layer.weight for layer in layers])
        return cls(weight, torch.cat(biases) if biases else None, relu)

    def __call__(self, states: Tensor) -> Tensor:
        """Return the output [..., out] for `states` [..., in]."""
        if can_pack():
            return multiply_packed(states, self.weight, self.bias, self.relu)
        output = functional.linear(states, self.weight, self.bias)
        return output.relu_() if self.relu else output


def pack(weight: Tensor) -> Tensor:
    """Return `weight` [out, in] in the layout of oneDNN."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
    return packed


def multiply_packed(states: Tensor, packed: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """Return `states` [..., in] times the packed weights, plus `bias`."""
    activation = "relu" if relu else "none"
    product: Tensor = torch.ops.mkldnn._linear_pointwise(states, packed, bias, activation, [], "")
    return product


@functools.cache
def can_pack() -> bool:
    """Return True if the processor and PyTorch have the operators of `Product`."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        with torch.no_grad():
            product = multiply_packed(torch.ones(2, 4), pack(torch.ones(3, 4)), None, True)
    except (AttributeError, RuntimeError):
        return False
    return product.tolist() == [[4.0] * 3] * 2


class Cache:
    """Keys and values of one attention [rows * heads, time, dim / heads].

    Those of self-attention grow, in buffers with unused positions at the end. Those of attention to
    the encoder have a row for each sentence.
    """

    def __init__(self, keys: Tensor, values: Tensor, heads: int, mask: Tensor | None) -> None:
        self.keys, self.values = keys, values
        self.heads = heads
        self.length = keys.size(1)
        self.mask = mask
        """[rows, time], True at padding. None: no padding."""

    @classmethod
    def empty(cls, rows: int, heads: int, dim: int) -> Cache:
        """Return a cache for self-attention."""
        keys, values = (torch.empty(rows * heads, 32, dim) for _ in range(2))
        cache = cls(keys, values, heads, None)
        cache.length = 0
        return cache

    def append(self, key: Tensor, value: Tensor, padding: Tensor | None) -> None:
        """Append the keys and values [rows, heads, dim / heads] of a position."""
        time = self.length
        if time == self.keys.size(1):
            self.keys, self.values = (
                torch.cat([buffer, torch.empty_like(buffer)], 1)
                for buffer in (self.keys, self.values)
            )
        self._by_row(self.keys)[:, :, time] = key
        self._by_row(self.values)[:, :, time] = value
        if padding is not None or self.mask is not None:
            real = torch.zeros(len(key), time + 1, dtype=torch.bool)
            before = real[:, 1:] if self.mask is None else self.mask
            self.mask = torch.cat([before, real[:, :1] if padding is None else padding], 1)
        self.length += 1

    def attend(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [rows * heads, queries, dim / heads] and the weights.

        Args:
            queries: [rows * heads, queries, dim / heads], scaled.
        """
        scores = torch.bmm(queries, self.keys[:, : self.length].transpose(1, 2))
        if self.mask is not None:
            mask = self.mask[:, None, None]
            scores.view(len(mask), self.heads, -1, self.length).masked_fill_(mask, -math.inf)
        weights = scores.softmax(-1)
        return torch.bmm(weights, self.values[:, : self.length]), weights

    def select(self, rows: Tensor) -> None:
        """Keep only `rows`."""
        self.keys, self.values = (
            self._by_row(buffer).index_select(0, rows).flatten(0, 1)
            for buffer in (self.keys, self.values)
        )
        if self.mask is not None:
            self.mask = self.mask.index_select(0, rows)

    def copy_rows(self, sources: Tensor, targets: Tensor) -> None:
        """Overwrite the rows `targets` by the rows `sources`."""
        for buffer in (self.keys, self.values):
            used = self._by_row(buffer)[:, :, : self.length]
            used.index_copy_(0, targets, used.index_select(0, sources))
        if self.mask is not None:
            self.mask.index_copy_(0, targets, self.mask.index_select(0, sources))

    def _by_row(self, buffer: Tensor) -> Tensor:
        return buffer.view(-1, self.heads, *buffer.shape[1:])


class BeamState:
    """Keys and values of the hypotheses of a batch, for each layer of a decoder."""

    def __init__(self, beam: int) -> None:
        self.beam = beam
        self.target: list[Cache] = []
        self.source: list[Cache] = []

    def select(self, rows: Tensor) -> None:
        """Keep only `rows`, the hypotheses of some of the sentences."""
        for cache in self.target:
            cache.select(rows)
        for cache in self.source:
            cache.select(rows[:: self.beam] // self.beam)

    def copy_rows(self, sources: Tensor, targets: Tensor) -> None:
        """Overwrite the rows `targets` by the rows `sources` of the same sentences."""
        if len(targets):
            for cache in self.target:
                cache.copy_rows(sources, targets)


class Norm:
    """A layer norm."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.args = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, states: Tensor) -> Tensor:
        """Normalize `states` [..., dim]."""
        return functional.layer_norm(states, *self.args)


class LayerStep:
    """A layer of fairseq's Transformer decoder, for one position of each hypothesis."""

    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self.heads, self.dim = attention.num_heads, attention.head_dim
        self.scaling = attention.scaling
        self.norm_before = layer.normalize_before
        self.project = Product.from_layers(attention.q_proj, attention.k_proj, attention.v_proj)
        self.target_out = Product.from_layers(attention.out_proj)
        self.target_norm = Norm(layer.self_attn_layer_norm)
        self.reads_source = layer.encoder_attn is not None
        if self.reads_source:
            attention = layer.encoder_attn
            self.query = Product.from_layers(attention.q_proj)
            self.encode = Product.from_layers(attention.k_proj, attention.v_proj)
            self.source_out = Product.from_layers(attention.out_proj)
            self.source_norm = Norm(layer.encoder_attn_layer_norm)
        relu = layer.activation_fn is functional.relu
        self.activation = None if relu else layer.activation_fn
        self.fc1 = Product.from_layers(layer.fc1, relu=relu)
        self.fc2 = Product.from_layers(layer.fc2)
        self.final_norm = Norm(layer.final_layer_norm)

    def __call__(
        self, states: Tensor, padding: Tensor | None, target: Cache, source: Cache | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output [rows, dim] and the weights [rows, source] of the last position."""
        before, rows = self.norm_before, len(states)
        entered = self.target_norm(states) if before else states
        query, key, value = self.project(entered).view(rows, 3, self.heads, self.dim).unbind(1)
        target.append(key, value, padding)
        attended, _ = target.attend((query * self.scaling).view(-1, 1, self.dim))
        states = self.target_out(attended.view(rows, -1)).add_(states)
        states = states if before else self.target_norm(states)
        weights = None
        if source is not None:
            entered = self.source_norm(states) if before else states
            change, weights = self._read_source(entered, source)
            states = change.add_(states)
            states = states if before else self.source_norm(states)
        entered = self.final_norm(states) if before else states
        inner = self.fc1(entered)
        inner = inner if self.activation is None else self.activation(inner)
        states = self.fc2(inner).add_(states)
        return states if before else self.final_norm(states), weights

    def encode_source(self, states: Tensor, mask: Tensor | None) -> Cache:
        """Return the keys and values of the encoder's output [sentences, time, dim]."""
        sentences, time, _ = states.shape
        projected = self.encode(states).view(sentences, time, 2, self.heads, self.dim)
        keys, values = projected.permute(2, 0, 3, 1, 4).flatten(1, 2)
        return Cache(keys.contiguous(), values.contiguous(), self.heads, mask)

    def _read_source(self, states: Tensor, source: Cache) -> tuple[Tensor, Tensor]:
        """Return the output [rows, dim] and weights [rows, source] of attention to the source."""
        heads, rows = self.heads, len(states)
        sentences = len(source.keys) // heads
        query = self.query(states).mul_(self.scaling).view(sentences, -1, heads, self.dim)
        queries = query.transpose(1, 2).reshape(sentences * heads, -1, self.dim)
        attended, weights = source.attend(queries)
        by_head = attended.view(sentences, heads, -1, self.dim).transpose(1, 2)
        output = self.source_out(by_head.reshape(rows, -1))
        return output, weights.view(sentences, heads, -1, source.length)


class DecoderStep:
    """fairseq's Transformer decoder for one position of each hypothesis."""

    def __init__(self, decoder: Any) -> None:
        self.version = [*map(weight_version, decoder.parameters())]
        self.layers = [LayerStep(layer) for layer in decoder.layers]
        self.norm = None if decoder.layer_norm is None else Norm(decoder.layer_norm)
        layer = decoder.output_projection
        self.blocks: list[Product] = []
        if type(layer) is nn.Linear and decoder.adaptive_softmax is None:
            bias: Tensor | None = layer.bias
            self.blocks = [
                Product(layer.weight[i : i + BLOCK], None if bias is None else bias[i : i + BLOCK])
                for i in range(0, layer.out_features, BLOCK)
            ]

    def features(
        self, decoder: Any, tokens: Tensor, encoded: Any, state: BeamState
    ) -> tuple[Tensor, Tensor | None]:
        """Return the features [rows, dim] and attention [rows, source] of the last position.

        Args:
            decoder: the decoder.
            tokens: [rows, time], the hypotheses so far.
            encoded: the encoder's output for each row.
            state: the state, which is updated.
        """
        if not state.target:
            self._begin(state, len(tokens), encoded)
        last = tokens[:, -1:]
        states = decoder.embed_scale * decoder.embed_tokens(last)
        if decoder.project_in_dim is not None:
            states = decoder.project_in_dim(states)
        if decoder.embed_positions is not None:
            # An empty state lets fairseq compute the last position only.
            states = states + decoder.embed_positions(tokens, incremental_state={})[:, -1:]
        if decoder.layernorm_embedding is not None:
            states = decoder.layernorm_embedding(states)
        states = states[:, 0]
        padding = last == decoder.padding_idx
        masked = padding if padding.any() else None
        weights = None
        for i, layer in enumerate(self.layers):
            source = state.source[i] if state.source else None
            states, weights = layer(states, masked, state.target[i], source)
        if self.norm is not None:
            states = self.norm(states)
        if decoder.project_out_dim is not None:
            states = decoder.project_out_dim(states)
        return states, None if weights is None else weights.mean(1).flatten(0, 1)

    def _begin(self, state: BeamState, rows: int, encoded: Any) -> None:
        state.target = [Cache.empty(rows, layer.heads, layer.dim) for layer in self.layers]
        if encoded is None or not self.layers[0].reads_source:
            return
        states = encoded["encoder_out"][0][:, :: state.beam].transpose(0, 1).contiguous()
        padding = encoded["encoder_padding_mask"]
        mask = padding[0][:: state.beam] if padding and padding[0].any() else None
        state.source = [layer.encode_source(states, mask) for layer in self.layers]


_STEPS: WeakKeyDictionary[nn.Module, DecoderStep] = WeakKeyDictionary()


def decoder_step(model: Any) -> DecoderStep | None:
    """Return the `DecoderStep` of a model in inference on a CPU, or None if it has none.

    Weights are packed once, and again if `weight_version` changes. fairseq forbids training after
    `prepare_for_inference_`.
    """
    if not getattr(model, "_is_generation_fast", False) or not is_plain(model):
        return None
    decoder = model.decoder
    step = _STEPS.get(decoder)
    if step is None or step.version != [*map(weight_version, decoder.parameters())]:
        step = _STEPS[decoder] = DecoderStep(decoder)
    return step


def is_plain(model: Any) -> bool:
    """Return True if `DecoderStep` computes what the decoder of `model` does."""
    decoder = getattr(model, "decoder", None)
    stock = ("forward", "extract_features", "extract_features_scriptable", "output_layer")
    return (
        isinstance(model, BaseFairseqModel)
        and isinstance(decoder, TransformerDecoderBase)
        and all(
            getattr(type(decoder), name) is getattr(TransformerDecoderBase, name) for name in stock
        )
        and not decoder.training
        and not decoder.cross_self_attention
        and decoder.quant_noise is None
        and len(decoder.layers) > 0
        and all(map(is_plain_layer, decoder.layers))
        and type(decoder.layer_norm) in (nn.LayerNorm, type(None))
        and all(
            weight.dtype == torch.float32 and weight.device.type == "cpu"
            for weight in decoder.parameters()
        )
        and not any(
            module.apply_during_inference
            for module in decoder.modules()
            if isinstance(module, FairseqDropout)
        )
    )


def is_plain_layer(layer: Any) -> bool:
    """Return True if `LayerStep` computes what `layer` does."""
    attentions = [each for each in (layer.self_attn, layer.encoder_attn) if each is not None]
    linear = [layer.fc1, layer.fc2, *(part for each in attentions for part in projections(each))]
    norms = [layer.self_attn_layer_norm, layer.final_layer_norm]
    norms += [] if layer.encoder_attn is None else [layer.encoder_attn_layer_norm]
    extras = ("attn_ln", "c_attn", "ffn_layernorm", "w_resid")
    return (
        type(layer) in (TransformerDecoderLayer, TransformerDecoderLayerBase)
        and not layer.onnx_trace
        and all(getattr(layer, name, None) is None for name in extras)
        and all(map(is_plain_attention, attentions))
        and all(type(part) is nn.Linear for part in linear)
        and all(type(norm) is nn.LayerNorm for norm in norms)
    )


def projections(attention: Any) -> tuple[Any, ...]:
    """Return the linear layers of an attention."""
    return attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj


def is_plain_attention(attention: Any) -> bool:
    """Return True if `attention` is softmax attention without options."""
    return (
        type(attention) is MultiheadAttention
        and attention.bias_k is None
        and not attention.add_zero_attn
        and not getattr(attention, "use_xformers", False)
        and len({part.bias is None for part in projections(attention)[:3]}) == 1
    )
