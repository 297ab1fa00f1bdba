"""The pseudo-bidirectional Transformer equals a reference, in batches and step by step."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from torch import Tensor
from torch.nn import functional

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.pseudo_bidirectional_transformer import PseudoBidirectionalConfig
from fairseq_ssl.modules.attention import float32_attention
from tests.conftest import trained_only
from tests.unit.models.plain_pseudo_bidirectional import Plain

fairseq_ssl.register()

PAD, EOS = 1, 2
HEADS = 2
ARCH = "pseudo_bidirectional_transformer"
SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [], [6, 5, 4, 7, 8]]
TARGETS = [[4, 9, 6, 5, 11, 12, 7, 8], [7, 8], [13, 4], [6, 5, 4, 7, 8]]
"""Targets longer and shorter than the source, of an empty source, and of the same length."""
KINDS: dict[str, dict[str, Any]] = {
    "input": {},
    "output": {"pseudo_future_layer": "output"},
    "norms-before": {"encoder_normalize_before": True},
    "output-norms-before": {"pseudo_future_layer": "output", "encoder_normalize_before": True},
    "prefix": {"pseudo_future_alignment": "prefix"},
    "prefix-output-norms-before": {
        "pseudo_future_alignment": "prefix",
        "pseudo_future_layer": "output",
        "encoder_normalize_before": True,
    },
    "prefix-unshared": {"pseudo_future_alignment": "prefix", "no_share_encoder_decoder": True},
    "no-future": {"no_pseudo_future": True},
    "unshared": {"no_share_encoder_decoder": True},
    "unshared-norms-before": {"no_share_encoder_decoder": True, "encoder_normalize_before": True},
    "stock": {"no_share_encoder_decoder": True, "no_pseudo_future": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def dictionary(words: int = 20) -> Dictionary:
    made = Dictionary()
    for i in range(words - made.nspecial):
        made.add_symbol(f"w{i}")
    return made


def build(arch: str = ARCH, words: Dictionary | None = None, **options: Any) -> Any:
    """Build a model as fairseq does: `options`, completed by the architecture's defaults."""
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](args)
    words = words or dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    torch.manual_seed(3)
    return ARCH_MODEL_REGISTRY[arch].build_model(PseudoBidirectionalConfig(**vars(args)), task)


def tiny(kind: str = "input", **options: Any) -> Any:
    """Build a tiny model in double precision whose segments and biases are not zero."""
    sizes = {
        "encoder_layers": 3,
        "encoder_embed_dim": 8,
        "encoder_ffn_embed_dim": 12,
        "encoder_attention_heads": HEADS,
    }
    model = build(**{**sizes, **KINDS[kind], **options}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def batch(sentences: list[list[int]], left: bool = False) -> Tensor:
    """Return a batch of sentences with EOS, padded on the right or left."""
    length = max(map(len, sentences)) + 1
    rows = []
    for words in sentences:
        pads = [PAD] * (length - len(words) - 1)
        rows.append([*pads, *words, EOS] if left else [*words, EOS, *pads])
    return torch.tensor(rows)


def previous(targets: list[list[int]]) -> Tensor:
    """Return the decoder input for targets, padded on the right."""
    length = max(map(len, targets)) + 1
    return torch.tensor([[EOS, *words] + [PAD] * (length - len(words) - 1) for words in targets])


def plain(model: Any, kind: str) -> Plain:
    options = KINDS[kind]
    layer = options.get("pseudo_future_layer", "input")
    before = options.get("encoder_normalize_before", False)
    return Plain(model, layer, HEADS, before, aligned="pseudo_future_alignment" in options)


def forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
    scores: Tensor = model(source, source.ne(PAD).sum(1), target)[0]
    return scores


@every_kind
@pytest.mark.parametrize("left", [True, False])
def test_scores_equal_the_reference(kind: str, left: bool) -> None:
    model = tiny(kind)
    reference = plain(model, kind)
    with torch.no_grad():
        scores = forward(model, batch(SENTENCES, left), previous(TARGETS))
        for row, (source, target) in enumerate(zip(SENTENCES, TARGETS, strict=True)):
            expected = reference.scores([*source, EOS], [EOS, *target])
            torch.testing.assert_close(scores[row, : len(expected)], expected)


@every_kind
def test_gradients_equal_the_reference(kind: str) -> None:
    model = tiny(kind)
    source, target = SENTENCES[1], TARGETS[0]
    picked = torch.arange(len(target) + 1)
    gradients = []
    for scores in (
        forward(model, batch([source]), previous([target]))[0],
        plain(model, kind).scores([*source, EOS], [EOS, *target]),
    ):
        model.zero_grad()
        torch.autograd.backward(scores.log_softmax(-1)[picked, picked + 4].sum())
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], msg=name)
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0].values())


@every_kind
def test_left_padded_targets_have_the_same_scores(kind: str) -> None:
    model = tiny(kind)
    right = previous(TARGETS)
    left = torch.tensor([[PAD] * (9 - len(t) - 1) + [EOS, *t] for t in TARGETS])
    source = batch(SENTENCES, left=True)
    with torch.no_grad():
        expected, found = forward(model, source, right), forward(model, source, left)
    torch.testing.assert_close(found[left.ne(PAD)], expected[right.ne(PAD)])
    assert found.isfinite().all()


@every_kind
@pytest.mark.parametrize("left", [True, False])
def test_incremental_decoding_equals_teacher_forcing(kind: str, left: bool) -> None:
    model = tiny(kind)
    source, target = batch(SENTENCES, left), previous([t + [4] * (8 - len(t)) for t in TARGETS])
    with torch.no_grad():
        expected = forward(model, source, target)
        encoded = model.encoder(source)
        state: dict[str, Any] = {}
        for step in range(target.size(1)):
            scores, _ = model.decoder(
                target[:, : step + 1], encoder_out=encoded, incremental_state=state
            )
            torch.testing.assert_close(scores[:, 0], expected[:, step])


@every_kind
def test_reordered_beams_and_finished_sentences(kind: str) -> None:
    """There are three beams per sentence. Beams are reordered, then the second sentence ends."""
    model = tiny(kind)
    source, beams = batch(SENTENCES, left=True), 3
    torch.manual_seed(1)
    tokens = torch.full((len(SENTENCES) * beams, 1), EOS)
    sentence = torch.arange(len(SENTENCES)).repeat_interleave(beams)
    state: dict[str, Any] = {}
    with torch.no_grad():
        encoded = model.encoder.reorder_encoder_out(model.encoder(source), sentence)
        for step in range(9):
            scores, extra = model.decoder(tokens, encoder_out=encoded, incremental_state=state)
            expected = forward(model, source[sentence], tokens)
            torch.testing.assert_close(scores[:, 0], expected[:, -1])
            attn = extra["attn"][0]
            assert attn.shape == (len(tokens), 1, source.size(1))
            torch.testing.assert_close(attn.sum(-1), torch.ones(len(tokens), 1).to(attn))
            groups = torch.arange(len(tokens)).view(-1, beams)
            if step == 4:
                groups = groups[torch.tensor([0, 2, 3])]
            order = groups[:, torch.randint(beams, (beams,))].flatten()
            model.decoder.reorder_incremental_state_scripting(state, order)
            encoded = model.encoder.reorder_encoder_out(encoded, order)
            sentence = sentence[order]
            new = torch.randint(4, 20, (len(order), 1))
            tokens = torch.cat([tokens[order], new], dim=1)


@every_kind
def test_different_numbers_of_rows_per_sentence(kind: str) -> None:
    model = tiny(kind)
    source, rows = batch(SENTENCES, left=True), torch.tensor([3, 0, 0, 1, 2, 2])
    target = torch.randint(4, 20, (6, 5))
    target[:, 0] = EOS
    with torch.no_grad():
        expected = forward(model, source[rows], target)
        encoded = model.encoder.reorder_encoder_out(model.encoder(source), rows)
        torch.testing.assert_close(model.decoder(target, encoder_out=encoded)[0], expected)
        state: dict[str, Any] = {}
        for step in range(5):
            prefix = target[:, : step + 1]
            scores, _ = model.decoder(prefix, encoder_out=encoded, incremental_state=state)
            torch.testing.assert_close(scores[:, 0], expected[:, step])


@every_kind
def test_scores_do_not_depend_on_future_target_tokens(kind: str) -> None:
    model = tiny(kind)
    source, target = batch([SENTENCES[1]]), previous([TARGETS[0]])
    with torch.no_grad():
        before = forward(model, source, target)
        for place in range(1, target.size(1)):
            other = target.clone()
            other[0, place] = 17
            after = forward(model, source, other)
            assert torch.equal(before[0, :place], after[0, :place])
            assert not torch.equal(before[0, place], after[0, place])


def test_pseudo_future_changes_the_scores() -> None:
    """Without the pseudo future, the scores are different."""
    with_future, without = tiny(), tiny()
    without.decoder.has_future = False
    source, target = batch([SENTENCES[1]]), previous([TARGETS[1]])
    with torch.no_grad():
        scores = forward(with_future, source, target), forward(without, source, target)
    assert (scores[0] - scores[1]).abs().max() > 1e-3


def test_alignment_matters_only_after_inserted_and_deleted_tokens() -> None:
    by_position, by_prefix = tiny(), tiny("prefix")
    with torch.no_grad():
        for words, first in (
            ([7, 8, 9, 10, 11, 12], 7),
            ([7, 8, 13, 10, 11, 12], 7),
            ([7, 13, 8, 9, 10, 11, 12], 3),
            ([7, 9, 10, 11, 12], 3),
        ):
            source, target = batch([SENTENCES[1]]), previous([words])
            expected = forward(by_position, source, target)[0]
            is_same = (forward(by_prefix, source, target)[0] == expected).all(1)
            assert is_same.tolist() == [t < first for t in range(len(words) + 1)]


def test_without_future_and_sharing_it_equals_fairseq_transformer() -> None:
    words = dictionary()
    model = tiny("stock", words=words)
    args = Namespace(
        encoder_layers=3,
        decoder_layers=3,
        encoder_embed_dim=8,
        encoder_ffn_embed_dim=12,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        share_all_embeddings=True,
    )
    ARCH_CONFIG_REGISTRY["transformer"](args)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    stock = TransformerModel.build_model(args, task).double().train()
    for module in stock.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    stock.load_state_dict(as_stock(model, stock.state_dict()))
    source, target = batch(SENTENCES, left=True), previous(TARGETS)
    with torch.no_grad():
        expected = stock(source, source.ne(PAD).sum(1), target)[0]
        found = forward(model, source, target)
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
    ("arch", "layers", "dim", "expected"),
    [
        (ARCH + "_big", 6, 1024, 131_500_032),
        (ARCH + "_big_12", 12, 1024, 232_280_064),
    ],
)
def test_number_of_parameters_matches_the_paper(
    arch: str, layers: int, dim: int, expected: int
) -> None:
    words = dictionary(30_000)
    with torch.device("meta"):
        model = build(arch, words)
    segments = layers * 2 * dim
    assert sum(p.numel() for p in model.parameters()) == expected + segments
    stored = trained_only(model.state_dict())
    assert sum(p.numel() for p in stored.values()) == expected + segments


@pytest.mark.parametrize(("layers", "expected"), [(6, 207_077_376), (12, 383_434_752)])
def test_number_of_parameters_of_the_baselines_matches_the_paper(
    layers: int, expected: int
) -> None:
    args = Namespace(share_all_embeddings=True, encoder_layers=layers, decoder_layers=layers)
    ARCH_CONFIG_REGISTRY["transformer_vaswani_wmt_en_de_big"](args)
    words = dictionary(30_000)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    with torch.device("meta"):
        model = TransformerModel.build_model(args, task)
    trained = trained_only(dict(model.named_parameters()))
    assert sum(p.numel() for p in trained.values()) == expected


@pytest.mark.parametrize(
    ("arch", "layers", "expected"),
    [(ARCH + "_small", 2, 972_800), (ARCH + "_small_4", 4, 1_939_600)],
)
def test_number_of_parameters_of_small_models(arch: str, layers: int, expected: int) -> None:
    model = build(arch, dictionary(30))
    assert sum(p.numel() for p in model.parameters()) == expected + layers * 2 * 200


def test_checkpoint_with_different_sharing_is_rejected() -> None:
    shared, unshared = tiny(), tiny("unshared")
    with pytest.raises(ConfigurationError, match=r"shares its layers.*--no-share-encoder-decoder"):
        unshared.load_state_dict(shared.state_dict())
    with pytest.raises(ConfigurationError, match=r"has its own layers.*shares"):
        shared.load_state_dict(unshared.state_dict())
    with pytest.raises(ConfigurationError, match="from a fairseq Transformer"):
        shared.load_state_dict({"decoder.layers.0.self_attn.q_proj.weight": torch.zeros(1)})


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="not a multiple"):
        build(encoder_embed_dim=10, encoder_attention_heads=4)
    with pytest.raises(ConfigurationError, match="--encoder-layers is 0; expected 1 or more"):
        build(encoder_layers=0)
    with pytest.raises(ConfigurationError, match="--encoder-attention-heads is 0; expected 1"):
        build(encoder_attention_heads=0)
    with pytest.raises(ConfigurationError, match="--encoder-ffn-embed-dim is -1; expected 1"):
        build(encoder_ffn_embed_dim=-1)
    with pytest.raises(ConfigurationError, match="--encoder-embed-dim is 0; expected 1"):
        build(encoder_embed_dim=0)
    with pytest.raises(ConfigurationError, match="--encoder-embed-dim is 2; sinusoids"):
        build(encoder_embed_dim=2, encoder_attention_heads=1)
    names = ("dropout", "attention_dropout", "activation_dropout")
    rates: list[dict[str, Any]] = [{name: 1.5} for name in names]
    for rate in rates:
        with pytest.raises(ConfigurationError, match=r"dropout is 1\.5; expected a number from 0"):
            build(**rate)
    with pytest.raises(ConfigurationError, match="--dropout is nan"):
        build(dropout=float("nan"))
    with pytest.raises(ConfigurationError, match="expected input or output"):
        tiny(pseudo_future_layer="middle")
    with pytest.raises(ConfigurationError, match="expected position or prefix"):
        tiny(pseudo_future_alignment="source")
    with pytest.raises(ConfigurationError, match="cannot be used with --no-pseudo-future"):
        tiny(pseudo_future_alignment="prefix", no_pseudo_future=True)
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary(21))
    with pytest.raises(ConfigurationError, match="--joined-dictionary"):
        ARCH_MODEL_REGISTRY[ARCH].build_model(PseudoBidirectionalConfig(), task)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close(dtype: torch.dtype) -> None:
    model = tiny("norms-before")
    source, target = batch(SENTENCES, left=True), previous(TARGETS)
    with torch.no_grad():
        expected = forward(model, source, target).log_softmax(-1)
        found = forward(model.to(dtype), source, target)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double().log_softmax(-1), expected, atol=0.3, rtol=0.05)


def test_overlapping_contexts_restore_the_attention_of_pytorch() -> None:
    stock = functional.scaled_dot_product_attention
    one, other = float32_attention(), float32_attention()
    for context in (one, other):
        context.__enter__()
    for context in (one, other):  # as in two threads
        assert functional.scaled_dot_product_attention is not stock
        context.__exit__(None, None, None)
    assert functional.scaled_dot_product_attention is stock
