"""lazy_adam updates rows with a gradient as Adam does, and no other rows."""

from __future__ import annotations

import copy
from typing import Any

import torch
from fairseq.optim.adam import Adam, FairseqAdamConfig
from torch import nn
from torch.nn import functional

from fairseq_ssl.optim.adam import LazyAdam, RowAdam

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
