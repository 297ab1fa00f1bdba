"""bert_adam is fairseq's Adam, with weight decay of matrices only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

import fairseq_ssl

fairseq_ssl.register()
from fairseq.optim import OPTIMIZER_REGISTRY  # noqa: E402

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
    """With zero gradients, an update sets a matrix to w (1 - lr * decay) and keeps a vector."""
    model = layer()
    nn.init.constant_(dict(model.named_parameters())["0.bias"], 0.5)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimizer = OPTIMIZER_REGISTRY["bert_adam"](config("bert_adam", 0.3), model.parameters())
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for name, weight in model.state_dict().items():
        factor = 1 - 0.1 * 0.3 if weight.dim() > 1 else 1.0
        torch.testing.assert_close(weight, before[name] * factor)


def test_without_weight_decay_it_equals_adam() -> None:
    ours, adam = trained("bert_adam", 0.0), trained("adam", 0.0)
    assert all(torch.equal(weight, adam[name]) for name, weight in ours.items())
    ours, adam = trained("bert_adam", 0.5), trained("adam", 0.5)
    assert not torch.allclose(ours["1.weight"], adam["1.weight"])


def test_flat_half_precision_weights_are_rejected() -> None:
    """A flat vector has no matrices. fairseq checks this property before it flattens weights."""
    for name, flat in (("bert_adam", False), ("adam", True)):
        optimizer = OPTIMIZER_REGISTRY[name](config(name, 0.1), list(layer().parameters()))
        assert optimizer.supports_flat_params is flat
