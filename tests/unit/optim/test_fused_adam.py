"""fairseq's Adam with the fused kernel: its formula, its state, and cases without the kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fairseq_ssl

fairseq_ssl.register()
from fairseq.optim.adam import Adam  # noqa: E402

from fairseq_ssl.optim.adam import can_fuse  # noqa: E402

OPTIONS = {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-2}
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
    optimizer = Adam(once, weight_decay=decay, **OPTIONS)
    train(optimizer, once, range(10))
    assert can_fuse(optimizer)
    for index, weight in enumerate(once):
        torch.testing.assert_close(weight.double(), by_formula(index, 10, decay), atol=1e-6, rtol=0)
    first, second = (Adam(resumed, weight_decay=decay, **OPTIONS) for _ in range(2))
    train(first, resumed, range(5))
    second.load_state_dict(first.state_dict())
    train(second, resumed, range(5, 10))
    assert all(map(torch.equal, once, resumed))


def test_the_kernel_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("fairseq_ssl.optim.adam.adamw", lambda *_, **options: calls.append(options))
    parameters = weights()
    train(Adam(parameters, **OPTIONS), parameters, range(1))
    assert [call["fused"] for call in calls] == [True]


@pytest.mark.parametrize("case", ["amsgrad", "double", "bfloat16"])
def test_other_weights_use_the_stock_optimizer(case: str) -> None:
    parameters = weights()
    if case != "amsgrad":
        parameters = [torch.nn.Parameter(weight.to(getattr(torch, case))) for weight in parameters]
    optimizer = Adam(parameters, amsgrad=case == "amsgrad", **OPTIONS)
    assert not can_fuse(optimizer)
    before = [weight.detach().clone() for weight in parameters]
    for weight in parameters:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert all((old != new).all() for old, new in zip(before, parameters, strict=True))


def test_sparse_gradients_are_rejected_as_before() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = Adam(table.parameters(), **OPTIONS)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()
