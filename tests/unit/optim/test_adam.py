"""bert_adam, lazy_adam and the fused kernel equal fairseq's Adam, apart from what they change."""

from __future__ import annotations

import copy
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import Adam, FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
from torch import nn
from torch.nn import functional

import fairseq_ssl
from fairseq_ssl.plugin.patches import apply_patches

fairseq_ssl.register()
from fairseq.optim import OPTIMIZER_REGISTRY  # noqa: E402

from fairseq_ssl.optim.adam import LazyAdam, RowAdam, can_fuse  # noqa: E402

OPTIONS = {"lr": [0.1], "adam_betas": "(0.9, 0.999)", "adam_eps": 1e-6, "fp16_adam_stats": False}


def layer() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def config(name: str, weight_decay: float) -> Any:
    return SimpleNamespace(
        _name=name, weight_decay=weight_decay, use_old_adam=True, tpu=False, **OPTIONS
    )


def trained(name: str, weight_decay: float, updates: int = 3) -> dict[str, torch.Tensor]:
    model = layer()
    optimizer = OPTIMIZER_REGISTRY[name](config(name, weight_decay), list(model.parameters()))
    for update in range(updates):
        torch.manual_seed(update)
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    return dict(model.state_dict())


def test_vectors_have_no_weight_decay() -> None:
    """Weight decay subtracts lr * decay * w from a matrix, beside the update without decay."""
    before = layer().state_dict()
    plain, decayed = (trained("bert_adam", decay, updates=1) for decay in (0.0, 0.3))
    for name, weight in before.items():
        decay = 0.1 * 0.3 * weight if weight.dim() > 1 else torch.zeros(())
        torch.testing.assert_close(decayed[name], plain[name] - decay)


def test_overridden_weight_decay_applies_to_matrices_only() -> None:
    """fairseq-train --optimizer-overrides replaces options of a checkpoint's optimizer."""
    weights = list(layer().parameters())
    optimizer = OPTIMIZER_REGISTRY["bert_adam"](config("bert_adam", 0.3), weights)
    optimizer.load_state_dict(optimizer.state_dict(), {"weight_decay": 0.01, "lr": 0.5})
    decays = {
        weight: group["weight_decay"]
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    assert [decays[one] for one in weights] == [0.01 * (one.dim() > 1) for one in weights]
    assert {group["lr"] for group in optimizer.param_groups} == {0.5}


@pytest.mark.parametrize("precision", ["fp16", "bf16", "amp", None])
def test_weights_without_gradients_are_frozen(precision: str | None) -> None:
    """This holds although FP16Optimizer replaces missing gradients by zeros, as legacy_ddp does."""
    cfg = OmegaConf.structured(FairseqConfig)
    OmegaConf.set_struct(cfg, False)
    cfg.optimizer = OmegaConf.create(vars(config("bert_adam", 0.5)))
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision or "", torch.float32)
    frozen, head = (nn.Parameter(torch.ones(2, 2, dtype=dtype)) for _ in range(2))
    if precision == "amp":
        optimizer = AMPOptimizer.build_optimizer(cfg, [frozen, head])
    elif precision:
        cfg.common[precision] = cfg.common.fp16_no_flatten_grads = True
        optimizer = FP16Optimizer.build_optimizer(cfg, [frozen, head])
    else:
        optimizer = OPTIMIZER_REGISTRY["bert_adam"](cfg.optimizer, [frozen, head])
    for update in range(5):
        optimizer.zero_grad()
        loss = (head + frozen * (update > 3)).sum() if update > 2 else head.sum()
        optimizer.backward(loss.float())
        if precision == "amp" and frozen.grad is None:
            frozen.grad = torch.zeros_like(frozen)
        optimizer.multiply_grads(1.0)
        optimizer.step()
        assert head.max() < 1 - 0.1 * update
        if update < 4:
            assert frozen.eq(1).all()
    # The first update of Adam is the learning rate: 1 (1 - 0.1 * 0.5) - 0.1.
    torch.testing.assert_close(frozen, torch.full_like(frozen, 0.85))


def test_an_older_adam_does_not_remove_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch adds step hooks to a class once, when its first optimizer is created."""
    monkeypatch.setattr(Adam, "step", inspect.unwrap(Adam.step))  # as before the patches
    weight = nn.Parameter(torch.ones(2, 2))
    Adam([weight])
    apply_patches()
    weight.grad = torch.zeros(2, 2)
    OPTIMIZER_REGISTRY["bert_adam"](config("bert_adam", 0.5), [weight]).step()
    assert weight.eq(1).all()


def test_without_weight_decay_it_equals_adam() -> None:
    ours, adam = trained("bert_adam", 0.0), trained("adam", 0.0)
    assert all(torch.equal(weight, adam[name]) for name, weight in ours.items())


def test_flat_half_precision_weights_are_rejected() -> None:
    """A flat vector has no matrices. fairseq checks this property before it flattens weights."""
    optimizer = OPTIMIZER_REGISTRY["bert_adam"](config("bert_adam", 0.1), [*layer().parameters()])
    assert not optimizer.supports_flat_params


FUSED = {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-2}
SHAPES = [(5, 7), (3,), (1,)]


def weights() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]


def gradients(update: int) -> list[torch.Tensor | None]:
    """Return random gradients. The second weight has none in most updates."""
    torch.manual_seed(update)
    every = [torch.randn(shape) for shape in SHAPES]
    return [every[0], every[1] if update % 3 == 0 else None, every[2]]


def train(optimizer: Any, parameters: list[torch.nn.Parameter], updates: range) -> None:
    for update in updates:
        for weight, gradient in zip(parameters, gradients(update), strict=True):
            weight.grad = gradient
        optimizer.step()


def by_formula(index: int, updates: int, decay: float) -> torch.Tensor:
    """Return a weight after Adam with decoupled decay, epsilon added before the bias correction."""
    weight = weights()[index].detach().double()
    first, second, step = torch.zeros_like(weight), torch.zeros_like(weight), 0
    for update in range(updates):
        gradient = gradients(update)[index]
        if gradient is None:
            continue
        step += 1
        first = 0.8 * first + 0.2 * gradient.double()
        second = 0.95 * second + 0.05 * gradient.double() ** 2
        rate = 0.03 * (1 - 0.95**step) ** 0.5 / (1 - 0.8**step)
        weight = weight * (1 - 0.03 * decay) - rate * first / (second.sqrt() + 1e-2)
    return weight


@pytest.mark.parametrize("decay", [0, 0.3])
def test_equal_to_the_formula(decay: float) -> None:
    """Also with a second optimizer that resumes from the state of the first."""
    once, resumed = weights(), weights()
    optimizer = Adam(once, weight_decay=decay, **FUSED)
    train(optimizer, once, range(10))
    assert can_fuse(optimizer)
    for index, weight in enumerate(once):
        torch.testing.assert_close(weight.double(), by_formula(index, 10, decay), atol=1e-6, rtol=0)
    first, second = (Adam(resumed, weight_decay=decay, **FUSED) for _ in range(2))
    train(first, resumed, range(5))
    second.load_state_dict(first.state_dict())
    train(second, resumed, range(5, 10))
    assert all(map(torch.equal, once, resumed))


def test_the_kernel_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("fairseq_ssl.optim.adam.adamw", lambda *_, **options: calls.append(options))
    parameters = weights()
    train(Adam(parameters, **FUSED), parameters, range(1))
    assert [call["fused"] for call in calls] == [True]


@pytest.mark.parametrize("case", ["amsgrad", "double", "bfloat16"])
def test_other_weights_use_the_stock_optimizer(case: str) -> None:
    parameters = weights()
    if case != "amsgrad":
        parameters = [torch.nn.Parameter(weight.to(getattr(torch, case))) for weight in parameters]
    optimizer = Adam(parameters, amsgrad=case == "amsgrad", **FUSED)
    assert not can_fuse(optimizer)
    before = [weight.detach().clone() for weight in parameters]
    for weight in parameters:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert all((old != new).all() for old, new in zip(before, parameters, strict=True))


def test_sparse_gradients_are_rejected_as_before() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = Adam(table.parameters(), **FUSED)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()


ROWS, DIM = 7, 3
SETTINGS: dict[str, Any] = {"lr": 0.1, "betas": (0.9, 0.98), "eps": 1e-6, "weight_decay": 0.01}


def network(sparse: bool) -> Any:
    torch.manual_seed(1)
    return nn.ModuleDict(
        {"table": nn.Embedding(ROWS, DIM, sparse=sparse), "linear": nn.Linear(DIM, 2)}
    )


def loss(net: Any, ids: list[int]) -> Any:
    hidden = net["linear"](net["table"](torch.tensor(ids)))
    return functional.cross_entropy(hidden, torch.tensor([one % 2 for one in ids]))


def test_it_equals_adam_if_all_rows_have_a_gradient() -> None:
    ours, theirs = network(sparse=True), network(sparse=False)
    fast, slow = RowAdam(ours.parameters(), **SETTINGS), Adam(theirs.parameters(), **SETTINGS)
    for step in range(5):
        for net, optimizer in ((ours, fast), (theirs, slow)):
            net.zero_grad()
            loss(net, [*range(ROWS), step, step]).backward()
            optimizer.step()
    assert ours["table"].weight.grad.is_sparse
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    mine, other = fast.state_dict()["state"], slow.state_dict()["state"]
    torch.testing.assert_close(mine, other)


def test_rows_without_gradient_do_not_change() -> None:
    """Rows with a gradient follow Adam's formula, written out."""
    net = network(sparse=True)
    optimizer = RowAdam(net.parameters(), **SETTINGS)
    rate, (first, second), tiny = SETTINGS["lr"], SETTINGS["betas"], SETTINGS["eps"]
    mean, square = torch.zeros(ROWS, DIM), torch.zeros(ROWS, DIM)
    for step, ids in enumerate(([1, 2, 2], [3, 2], [1, 5], [2, 2, 2]), 1):
        before = net["table"].weight.detach().clone()
        net.zero_grad()
        loss(net, ids).backward()
        gradient = net["table"].weight.grad.to_dense()
        optimizer.step()
        after = net["table"].weight.detach()
        for row in range(ROWS):
            if row not in ids:
                assert torch.equal(after[row], before[row])
                continue
            mean[row] = first * mean[row] + (1 - first) * gradient[row]
            square[row] = second * square[row] + (1 - second) * gradient[row] ** 2
            size = rate * (1 - second**step) ** 0.5 / (1 - first**step)
            kept = before[row] * (1 - rate * SETTINGS["weight_decay"])
            wanted = kept - size * mean[row] / (square[row].sqrt() + tiny)
            torch.testing.assert_close(after[row], wanted)


def test_training_resumes_from_the_optimizer_state() -> None:
    net = network(sparse=True)
    optimizer = RowAdam(net.parameters(), **SETTINGS)
    loss(net, [1, 2]).backward()
    optimizer.step()
    other = copy.deepcopy(net)
    resumed = RowAdam(other.parameters(), **SETTINGS)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, by in ((net, optimizer), (other, resumed)):
        one.zero_grad()
        loss(one, [2, 3]).backward()
        by.step()
    assert all(map(torch.equal, net.parameters(), other.parameters()))


def test_clipping_and_scaling_of_dense_and_sparse_gradients() -> None:
    ours, theirs = network(sparse=True), network(sparse=False)
    made = LazyAdam(FairseqAdamConfig(lr=[0.1], adam_betas="(0.9, 0.98)"), [*ours.parameters()])
    for net in (ours, theirs):
        loss(net, [1, 2, 2]).backward()
    made.multiply_grads(10.0)
    for weight in theirs.parameters():
        weight.grad.mul_(10)
    norm = made.clip_grad_norm(0.5)
    torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(theirs.parameters(), 0.5))
    for weight, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight.grad.to_dense(), other.grad, rtol=1e-4, atol=1e-6)
