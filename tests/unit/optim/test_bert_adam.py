"""bert_adam is fairseq's Adam, with weight decay of matrices only."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import Adam
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
from torch import nn

import fairseq_ssl
from fairseq_ssl.plugin.patches import apply_patches

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
