"""ByteNet: its receptive field, its length bound, and the sizes of its architectures."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.bytenet import ByteNet, ByteNetConfig
from tests.unit.models import tiny_models
from tests.unit.models.tiny_models import SENTENCES, batch, previous, task

TINY = {"bytenet_dim": 8, "bytenet_sets": 2, "bytenet_dilations": "1,2,4"}
KINDS: dict[str, dict[str, Any]] = {
    "bytenet": TINY,
    "bytenet_simplified": TINY,
    "bytenet_selu": TINY,
    "bytenet_no_norm": TINY,
    "bytenet_v2": TINY,
}
SOURCE = batch(SENTENCES, left=True)
PREVIOUS = previous([words + words for words in SENTENCES])


def build(kind: str = "bytenet", **options: Any) -> Any:
    return tiny_models.build(kind, **{"bytenet_unfold": "1.2,1", **KINDS[kind], **options})


def test_a_checkpoint_without_an_option_is_built_with_its_default() -> None:
    options = {**vars(ByteNetConfig()), **TINY, "_name": "bytenet_simplified"}
    del options["bytenet_sets"], options["bytenet_uncompressed"]
    cfg = OmegaConf.create(options)
    OmegaConf.set_struct(cfg, True)
    stack = build_model(cfg, task()).encoder.stack
    assert len(stack.blocks) == ByteNetConfig.bytenet_sets * 3
    assert stack.width == TINY["bytenet_dim"], "the architecture's value"


@torch.enable_grad()
def trained(kind: str) -> Any:
    """Return a model whose running statistics and shifts differ from their initial values."""
    model = build(kind).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        loss = -logits(model).log_softmax(-1)[..., 5:9].mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return model.eval()


def logits(model: Any, source: Tensor = SOURCE, target: Tensor = PREVIOUS) -> Tensor:
    return tiny_models.logits(model, source, target)


@torch.no_grad()
def test_receptive_field_matches_the_dilations() -> None:
    model = build("bytenet_selu", bytenet_unfold="1,40").eval()  # 2 x 2 x (1 + 2 + 4) = 28
    target = torch.full((1, 40), 5)
    changed = target.clone()
    changed[0, 3] = 6
    source = SOURCE[:1, -4:]
    different = (logits(model, source, target) != logits(model, source, changed)).any(-1)[0]
    assert different.nonzero().flatten().tolist() == list(range(3, 3 + 28 + 1))


@torch.no_grad()
def test_encoder_columns_beyond_the_source_are_computed_up_to_the_bound() -> None:
    model = build(bytenet_unfold="2,1").eval()
    out = model.encoder(SOURCE)
    columns = out["encoder_out"][0].transpose(0, 1)
    assert out["columns"][0].tolist() == [9, 15, 5, 13]
    assert columns.shape[1] == 15
    assert columns[0, 8].any()
    assert not columns[0, 9:].any()
    assert out["encoder_padding_mask"][0].sum(1).tolist() == [6, 0, 10, 2]


@pytest.mark.parametrize(
    ("bound", "length", "columns"),
    [("1.004,0", 1000, 1010), ("1,0.5", 10, 11), ("1,2.5", 10, 13), ("1.1,0", 100, 110)],
)
def test_numbers_of_the_length_bound_are_rounded_up(bound: str, length: int, columns: int) -> None:
    model = build(bytenet_unfold=bound)
    assert model.encoder.unfolding(torch.tensor([length])).tolist() == [columns]


def test_length_bound_is_fitted_to_the_pairs_and_saved_with_the_weights() -> None:
    model = build(bytenet_unfold="auto")
    assert model.encoder.unfolding(torch.tensor([4, 6])).tolist() == [6, 9]
    empty = task(train_subset="train")
    empty.datasets = {}
    empty.load_dataset = lambda split, combine: (_ for _ in ()).throw(FileNotFoundError(split))
    untrained = ByteNet.build_model(
        ByteNetConfig.from_namespace(Namespace(**KINDS["bytenet"])), empty
    )
    with pytest.raises(ConfigurationError, match="no training pairs"):
        logits(untrained)
    untrained.load_state_dict(model.state_dict())
    assert torch.equal(logits(untrained.eval()), logits(model.eval()))
    explicit = build(bytenet_unfold="1.5,3")
    explicit.load_state_dict(model.state_dict())
    assert explicit.encoder.unfolding(torch.tensor([4, 6])).tolist() == [9, 12]


@pytest.mark.parametrize(
    ("kind", "stacks"),
    [
        ("bytenet", 5_400_000 + 16_800_000),  # 27 million in the slides, with a decoder kernel of 5
        ("bytenet_digits", 13_500 + 42_000),
        ("bytenet_simplified", 15 * 5 * 200**2 + 15 * 3 * 400**2),
        ("bytenet_v2", 2 * 15 * (800**2 + 3 * 400**2) + 2 * 15 * (1600**2 + 3 * 800**2)),
    ],
)
def test_number_of_convolution_weights_matches_the_slides(kind: str, stacks: int) -> None:
    args = Namespace(bytenet_unfold="1,0")
    ARCH_CONFIG_REGISTRY[kind](args)
    with torch.device("meta"):
        model = ByteNet.build_model(ByteNetConfig.from_namespace(args), task())
    sides = (model.encoder.stack, model.decoder.stack)
    found = [w.numel() for side in sides for w in side.parameters() if w.ndim == 2]
    assert sum(found) == stacks


def test_architectures_have_the_norms_and_activations_of_the_slides() -> None:
    def modules(kind: str) -> set[str]:
        return {type(module).__name__ for module in build(kind).modules()}

    norm_names = {"RowBatchNorm", "LayerNorm"}
    assert norm_names <= modules("bytenet")
    assert not norm_names & modules("bytenet_no_norm")
    assert "RowBatchNorm" not in modules("bytenet_v2")
    norms = {
        kind: sum(type(module).__name__ in norm_names for module in build(kind).modules())
        for kind in ("bytenet", "bytenet_simplified")
    }
    assert norms["bytenet"] == 3 * norms["bytenet_simplified"]


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"bytenet_dilations": "1,0"}, "--bytenet-dilations"),
        ({"bytenet_dim": 7}, "--bytenet-dim"),
        ({"bytenet_unfold": "1.2"}, "--bytenet-unfold"),
        ({"bytenet_unfold": "nan,1"}, "--bytenet-unfold"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        build(**options)


def test_left_padded_targets_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="--left-pad-target"):
        ByteNet.build_model(ByteNetConfig(), task(left_pad_target=True))
