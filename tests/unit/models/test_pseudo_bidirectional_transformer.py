"""The pseudo-bidirectional Transformer equals a reference, in batches and step by step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.pseudo_bidirectional_transformer import PseudoBidirectionalConfig
from fairseq_ssl.modules.attention import float32_attention
from tests.conftest import trained_only
from tests.unit.models import tiny_models
from tests.unit.models.plain_pseudo_bidirectional import Plain
from tests.unit.models.tiny_models import EOS, PAD, batch, dictionary, logits, previous

HEADS = 2
ARCH = "pseudo_bidirectional_transformer"
SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [], [6, 5, 4, 7, 8]]
TARGETS = [[4, 9, 6, 5, 11, 12, 7, 8], [7, 8], [13, 4], [6, 5, 4, 7, 8]]
"""Targets longer and shorter than the source, of an empty source, and of the same length."""
OUTPUT = {"pseudo_future_layer": "output"}
BEFORE = {"encoder_normalize_before": True}
PREFIX = {"pseudo_future_alignment": "prefix"}
UNSHARED = {"no_share_encoder_decoder": True}
KINDS: dict[str, dict[str, Any]] = {
    "input": {},
    "output-norms-before": {**OUTPUT, **BEFORE},
    "output-unshared": {**OUTPUT, **UNSHARED},
    "prefix": PREFIX,
    "prefix-output-norms-before": {**PREFIX, **OUTPUT, **BEFORE},
    "prefix-unshared-norms-before": {**PREFIX, **UNSHARED, **BEFORE},
    "no-future-norms-before": {"no_pseudo_future": True, **BEFORE},
    "stock": {"no_pseudo_future": True, **UNSHARED},
}
"""Each pair of options."""
every_kind = pytest.mark.parametrize("kind", KINDS)


def tiny(kind: str = "input", **options: Any) -> Any:
    """Build a tiny model in double precision whose segments and biases are not zero."""
    sizes = {
        "encoder_layers": 3,
        "encoder_embed_dim": 8,
        "encoder_ffn_embed_dim": 12,
        "encoder_attention_heads": HEADS,
    }
    options = {**sizes, **KINDS[kind], **options}
    model = tiny_models.build(ARCH, seed=3, **options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def plain(model: Any, kind: str) -> Plain:
    options = KINDS[kind]
    layer = options.get("pseudo_future_layer", "input")
    before = options.get("encoder_normalize_before", False)
    return Plain(model, layer, HEADS, before, aligned="pseudo_future_alignment" in options)


@every_kind
@pytest.mark.parametrize(("left", "left_target"), [(True, False), (False, False), (True, True)])
def test_scores_equal_the_reference(kind: str, left: bool, left_target: bool) -> None:
    model = tiny(kind)
    reference, target = plain(model, kind), previous(TARGETS, left_target)
    with torch.no_grad():
        scores = logits(model, batch(SENTENCES, left), target)
        assert scores.isfinite().all()
        for row, (words, to) in enumerate(zip(SENTENCES, TARGETS, strict=True)):
            expected = reference.scores([*words, EOS], [EOS, *to])
            torch.testing.assert_close(scores[row][target[row].ne(PAD)], expected)


@every_kind
def test_gradients_equal_the_reference(kind: str) -> None:
    model = tiny(kind)
    source, target = SENTENCES[1], TARGETS[0]
    picked = torch.arange(len(target) + 1)
    gradients = []
    for scores in (
        logits(model, batch([source], True), previous([target]))[0],
        plain(model, kind).scores([*source, EOS], [EOS, *target]),
    ):
        model.zero_grad()
        torch.autograd.backward(scores.log_softmax(-1)[picked, picked + 4].sum())
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], msg=name)
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0].values())


def test_attention_weights_sum_to_one_over_the_source() -> None:
    model, source = tiny(), batch(SENTENCES, True)
    tokens = torch.full((len(source), 1), EOS)
    _, extra = model.decoder(tokens, encoder_out=model.encoder(source), incremental_state={})
    assert extra["attn"][0].shape == (len(source), 1, source.size(1))
    assert not extra["attn"][0][:, 0][source.eq(PAD)].any()
    torch.testing.assert_close(extra["attn"][0].sum(-1), torch.ones(len(source), 1))


def test_without_future_and_sharing_it_equals_fairseq_transformer() -> None:
    model = tiny("stock")
    layers = {"encoder_layers": 3, "decoder_layers": 3, "share_all_embeddings": True}
    heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    dims = {"encoder_embed_dim": 8, "encoder_ffn_embed_dim": 12}
    stock = tiny_models.build("transformer", **layers, **heads, **dims).double().train()
    for module in stock.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    stock.load_state_dict(as_stock(model, stock.state_dict()))
    source, target = batch(SENTENCES, True), previous(TARGETS)
    with torch.no_grad():
        expected = stock(source, source.ne(PAD).sum(1), target)[0]
        found = logits(model, source, target)
    real = target.ne(PAD)
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


def as_stock(model: Any, names: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert the weights of `model` to the names of fairseq's Transformer."""
    ours = model.state_dict()
    state = {}
    for name, weight in names.items():
        if "embed_tokens" in name or "output_projection" in name:
            state[name] = ours["encoder.embed_tokens.weight"]
            continue
        part = next((part for part in ("q", "k", "v") if f"{part}_proj." in name), None)
        wanted = name if part is None else name.replace(f"{part}_proj", "in_proj")
        if wanted not in ours:
            wanted = wanted.replace("decoder.layers", "decoder.blocks")
        if wanted not in ours:
            state[name] = weight  # version counters
            continue
        state[name] = ours[wanted] if part is None else ours[wanted].chunk(3)["qkv".index(part)]
    return state


@pytest.mark.parametrize(
    ("arch", "symbols", "segments", "expected"),
    [
        (ARCH + "_big", 30_000, 6 * 2 * 1024, 131_500_032),
        (ARCH + "_big_12", 30_000, 12 * 2 * 1024, 232_280_064),
        (ARCH + "_small", 30, 2 * 2 * 200, 972_800),
        (ARCH + "_small_4", 30, 4 * 2 * 200, 1_939_600),
    ],
)
def test_number_of_parameters_matches_the_paper(
    arch: str, symbols: int, segments: int, expected: int
) -> None:
    with torch.device("meta"):
        model = tiny_models.build(arch, dictionary(symbols))
    for weights in (dict(model.named_parameters()), trained_only(model.state_dict())):
        assert sum(weight.numel() for weight in weights.values()) == expected + segments


def test_checkpoint_with_different_sharing_is_rejected() -> None:
    shared, unshared = tiny(), tiny("output-unshared")
    stock = {"decoder.layers.0.self_attn.q_proj.weight": torch.zeros(1)}
    for model, state in (
        (unshared, shared.state_dict()),
        (shared, unshared.state_dict()),
        (shared, stock),
    ):
        with pytest.raises(ConfigurationError, match="checkpoint"):
            model.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"encoder_attention_heads": 3}, "--encoder-attention-heads"),
        ({**PREFIX, "no_pseudo_future": True}, "--no-pseudo-future"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        tiny(**options)


def test_separate_dictionaries_are_rejected() -> None:
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary(21))
    with pytest.raises(ConfigurationError, match="--joined-dictionary"):
        ARCH_MODEL_REGISTRY[ARCH].build_model(PseudoBidirectionalConfig(), task)


def test_overlapping_contexts_restore_the_attention_of_pytorch() -> None:
    stock = functional.scaled_dot_product_attention
    one, other = float32_attention(), float32_attention()
    for context in (one, other):
        context.__enter__()
    for context in (one, other):  # as in two threads
        assert functional.scaled_dot_product_attention is not stock
        context.__exit__(None, None, None)
    assert functional.scaled_dot_product_attention is stock
