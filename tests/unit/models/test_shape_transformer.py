"""The SHAPE Transformer equals fairseq's without shifts, and shifts move its positions."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from torch import Tensor

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.shape_transformer import DEFAULTS
from tests.conftest import trained_only
from tests.unit.models import tiny_models
from tests.unit.models.tiny_models import PAD, SENTENCES, batch, previous

SOURCE, PREVIOUS = batch(SENTENCES, left=True), previous(SENTENCES)


def build(arch: str = "shape_transformer_tiny", seed: int = 1, **options: Any) -> Any:
    return tiny_models.build(arch, seed=seed, **{"dropout": 0.0, **options})


def logits(model: Any, source: Tensor = SOURCE, target: Tensor = PREVIOUS) -> Tensor:
    return tiny_models.logits(model, source, target)


def train_three_steps(model: Any) -> dict[str, Tensor]:
    """Train with dropout and Adam. Set the seed at each step, as fairseq's trainer does."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        torch.manual_seed(1 + step)
        loss = logits(model.train()).log_softmax(-1)[..., 5].mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return trained_only(model.state_dict())


@pytest.mark.parametrize("options", [{"shape_max_shift": 0}, {"shape_positions": "absolute"}])
def test_training_without_shifts_equals_fairseq_bit_for_bit(options: dict[str, Any]) -> None:
    ours = train_three_steps(build(**options, dropout=0.3))
    stock = train_three_steps(build("transformer_tiny", dropout=0.3))
    assert ours.keys() == stock.keys()
    assert all(torch.equal(ours[name], stock[name]) for name in stock)


def test_evaluation_equals_fairseq_transformer() -> None:
    ours, stock = build(shape_max_shift=500), build("transformer_tiny", seed=2)
    stock.load_state_dict(ours.state_dict())
    assert torch.equal(logits(ours.eval()), logits(stock.eval()))


class FixedPositions(torch.nn.Module):
    """A position layer that always returns the same embeddings."""

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, tokens: Tensor, incremental_state: Any = None) -> Tensor:
        return self.embeddings


def logits_at(model: Any, source_shift: Tensor | int, target_shift: Tensor | int) -> Tensor:
    """Return the logits of a model whose positions are shifted."""
    for side, shift, tokens in (
        (model.encoder, source_shift, SOURCE),
        (model.decoder, target_shift, PREVIOUS),
    ):
        table = side.embed_positions.weights
        index = (tokens.ne(PAD).cumsum(1) + shift) * tokens.ne(PAD) + PAD
        side.embed_positions = FixedPositions(table[index])
    return logits(model)


@pytest.mark.parametrize("shared", [False, True])
def test_shifts_of_source_and_target(shared: bool) -> None:
    model = build(shape_max_shift=30, shape_shared_shift=shared).train()
    torch.manual_seed(4)
    source, target = torch.randint(31, (4, 1)), torch.randint(31, (4, 1))
    assert not torch.equal(source, target)
    torch.manual_seed(4)
    shifted = logits(model)
    torch.testing.assert_close(logits_at(model, source, source if shared else target), shifted)


def test_eval_offset_shifts_positions_in_evaluation_only() -> None:
    model, plain = (build(shape_eval_offset=offset, shape_max_shift=0) for offset in (40, 0))
    torch.testing.assert_close(logits(model.train()), logits(plain.train()))
    moved = logits(model.eval())
    torch.testing.assert_close(logits_at(model, 40, 40), moved)
    assert not torch.allclose(logits(plain.eval()), moved)


def test_a_warm_up_follows_the_updates_of_the_trainer() -> None:
    model = build(shape_max_shift=30, shape_shift_warmup=10).train()
    unshifted = logits(build(shape_max_shift=0).train())
    for update, expected in ((0, 0), (5, 15), (10, 30), (99, 30)):
        model.set_num_updates(update)
        sides = (model.encoder.embed_positions, model.decoder.embed_positions)
        assert [side.current_max_shift for side in sides] == [expected] * 2
        assert torch.equal(logits(model), unshifted) == (update == 0)


KINDS: dict[str, dict[str, Any]] = {
    "absolute": {"shape_positions": "absolute"},
    "offset": {"shape_max_shift": 0, "shape_eval_offset": 40},
    "relative": {"shape_positions": "relative"},
    "one-table": {
        "shape_positions": "relative",
        "shape_relative_limit": 2,
        "shape_relative_one_table": True,
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_gradients_are_close(kind: str, dtype: torch.dtype) -> None:
    gradients = []
    for enabled in (False, True):
        model = build(**KINDS[kind]).train()
        with torch.autocast("cpu", dtype, enabled=enabled):
            out = logits(model)
        torch.autograd.backward(out.float().log_softmax(-1)[..., 5].mean())
        found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients.append(torch.cat(found))
    exact, half = gradients
    assert half.dtype == torch.float32
    assert torch.cosine_similarity(exact, half, dim=0) > 0.99


@pytest.mark.parametrize(
    ("options", "per_layer"),
    [
        ({"shape_relative_limit": 3}, 2),
        ({"shape_relative_limit": 3, "encoder_layerdrop": 0.9, "decoder_layerdrop": 0.9}, 2),
        ({"shape_relative_limit": 3, "shape_relative_one_table": True}, 1),
    ],
)
def test_relative_positions_are_in_self_attention_only(
    options: dict[str, Any], per_layer: int
) -> None:
    model = build(shape_positions="relative", **options)
    assert model.encoder.embed_positions is model.decoder.embed_positions is None
    layers = [*model.encoder.layers.children(), *model.decoder.layers.children()]
    tables = {name: p for name, p in model.named_parameters() if "distances" in name}
    assert len(tables) == per_layer * len(layers) > 0
    assert {tuple(table.shape) for table in tables.values()} == {(7, layers[0].self_attn.head_dim)}
    assert not any("encoder_attn" in name for name in tables)


@pytest.mark.parametrize(("arch", "stock"), STOCK_COUNTERPART.items())
def test_architectures_have_the_sizes_of_fairseq(arch: str, stock: str) -> None:
    ours, theirs = Namespace(), Namespace()
    ARCH_CONFIG_REGISTRY[arch](ours)
    ARCH_CONFIG_REGISTRY[stock](theirs)
    assert vars(ours) == vars(theirs) | DEFAULTS
    thesis = {"shape_max_shift": 500, "shape_relative_limit": 16, "shape_eval_offset": 0}
    assert thesis.items() <= DEFAULTS.items()


@pytest.mark.parametrize(
    "options",
    [
        {"share_all_embeddings": True},
        {"share_all_embeddings": False},
        {"adaptive_softmax_cutoff": "8,12"},
    ],
)
def test_glorot_embeddings_are_uniform(options: dict[str, Any]) -> None:
    model = build(shape_embedding_init="glorot", **options)
    tables = [model.encoder.embed_tokens, model.decoder.embed_tokens]
    if "adaptive_softmax_cutoff" not in options:
        tables.append(model.decoder.output_projection)
    bound = (6 / (20 + 64)) ** 0.5
    for weight in (table.weight.detach() for table in tables):
        assert not weight[PAD].any()
        others = weight[torch.arange(len(weight)) != PAD]
        assert 0.9 * bound < others.abs().max() <= bound
        # uniform: standard deviation bound / sqrt(3), no tail
        assert others.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    stock = build(**options).encoder.embed_tokens.weight.detach()
    assert stock.std().item() == pytest.approx(64**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"encoder_learned_pos": True}, "--encoder-learned-pos"),
        ({"shape_positions": "absolute", "shape_shared_shift": True}, "--shape-shared-shift"),
        ({"shape_positions": "relative", "shape_max_shift": 500}, "--shape-max-shift"),
        ({"shape_positions": "shifted", "shape_relative_limit": 8}, "--shape-relative-limit"),
        ({"shape_positions": "relative", "cross_self_attention": True}, "--cross-self-attention"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        build(**options)
