"""--amp on a CPU: training in bfloat16 with float32 weights."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fairseq_ssl
from tests.conftest import train, weights

fairseq_ssl.register()
from fairseq import options  # noqa: E402
from fairseq.optim import OPTIMIZER_REGISTRY  # noqa: E402
from fairseq.optim.amp_optimizer import AMPOptimizer  # noqa: E402
from fairseq.tasks import FairseqTask  # noqa: E402

from fairseq_ssl.modules.functional import has_bfloat16_units  # noqa: E402

ADAM = SimpleNamespace(
    **{"_name": "adam", "lr": [0.1], "adam_betas": "(0.9, 0.999)", "adam_eps": 1e-6},
    **{"weight_decay": 0.0, "use_old_adam": True, "tpu": False, "fp16_adam_stats": False},
)


class Linear(nn.Linear):
    def set_num_updates(self, updates: int) -> None:
        """Do nothing. fairseq calls it."""


def criterion(model: Linear, sample: Tensor) -> tuple[Tensor, int, dict[str, Any]]:
    out = model(sample)
    return out.float().square().sum(), len(sample), {"dtype": out.dtype}


def step(model: Linear, sample: Tensor, optimizer: Any) -> Any:
    task = FairseqTask(SimpleNamespace())
    return FairseqTask.train_step(task, sample, model, criterion, optimizer, 1)


def unscaled() -> AMPOptimizer:
    """Return an optimizer of --amp that only computes gradients."""
    optimizer = AMPOptimizer.__new__(AMPOptimizer)
    optimizer.fp32_optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    return optimizer


HAS_UNITS = "fairseq_ssl.modules.functional.has_bfloat16_units"


@pytest.mark.parametrize("kind", ["amp", "amp without units", "plain"])
def test_only_amp_computes_in_bfloat16(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HAS_UNITS, lambda: kind == "amp")
    model = Linear(4, 2)
    optimizer = unscaled().fp32_optimizer if kind == "plain" else unscaled()
    _, size, log = step(model, torch.ones(3, 4), optimizer)
    assert size == 3
    assert log["dtype"] is (torch.bfloat16 if kind == "amp" else torch.float32)
    assert model.weight.grad is not None
    assert model.weight.dtype is model.weight.grad.dtype is torch.float32
    assert not torch.is_autocast_enabled("cpu")


class Attention(Linear):
    """Attention of a sequence to itself, which records the types of its keys."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.seen: list[tuple[torch.dtype, torch.dtype | None]] = []

    def forward(self, states: Tensor) -> Tensor:
        keys = super().forward(states)
        mask = torch.zeros(3, 3, dtype=keys.dtype)
        attended = functional.scaled_dot_product_attention(keys, keys, keys, attn_mask=mask)
        self.seen.append((keys.dtype, attended.dtype))
        return attended


def test_amp_attends_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CPUs attention in bfloat16 is slower."""
    monkeypatch.setattr(HAS_UNITS, lambda: True)
    stock = functional.scaled_dot_product_attention
    model = Attention()
    states = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1))
    loss, _, _ = step(model, states, unscaled())
    assert model.seen == [(torch.bfloat16, torch.float32)]
    keys = nn.Linear.forward(model, states)
    expected = ((keys @ keys.transpose(1, 2)) / 2).softmax(-1) @ keys
    torch.testing.assert_close(loss, expected.square().sum(), rtol=2e-2, atol=0)
    assert model.weight.grad is not None
    assert functional.scaled_dot_product_attention is stock


def test_attention_is_restored_after_an_error() -> None:
    stock = functional.scaled_dot_product_attention
    with pytest.raises(RuntimeError):
        step(Linear(4, 2), torch.ones(3, 5), unscaled())
    assert functional.scaled_dot_product_attention is stock


def amp_optimizer(model: Linear) -> AMPOptimizer:
    common = SimpleNamespace(fp16_init_scale=128, min_loss_scale=1e-4)
    stock = OPTIMIZER_REGISTRY["adam"](ADAM, list(model.parameters()))
    return AMPOptimizer(SimpleNamespace(optimizer=ADAM, common=common), model.parameters(), stock)


def test_infinite_gradients_end_the_training() -> None:
    model = Linear(4, 2)
    optimizer = amp_optimizer(model)
    optimizer.backward(model(torch.full((1, 4), 1e38)).mul(1e38).sum())
    with pytest.raises(FloatingPointError, match="Your loss is probably exploding"):
        optimizer.clip_grad_norm(1.0)


@pytest.mark.parametrize("has_cuda", [True, False])
def test_the_loss_is_not_scaled(
    has_cuda: bool, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """With --cpu on a machine with CUDA, too, whose scaler would reject unscaled gradients."""
    missing = "torch.cuda.amp.common.amp_definitely_not_available"
    monkeypatch.setattr(missing, lambda: not has_cuda)
    model = Linear(4, 2)
    optimizer = amp_optimizer(model)
    before = model.weight.detach().clone()
    step(model, torch.ones(3, 4), optimizer)
    optimizer.clip_grad_norm(1.0)
    optimizer.step()
    assert not torch.equal(model.weight, before)
    assert not [one for one in recwarn if "CUDA" in str(one.message)]


def scaled_optimizer(model: Linear) -> Any:
    """Return the optimizer of --amp with the loss scale of a GPU, for weights on a CPU."""
    optimizer = AMPOptimizer.__new__(AMPOptimizer)
    optimizer.fp32_optimizer = OPTIMIZER_REGISTRY["adam"](ADAM, list(model.parameters()))
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    optimizer.min_loss_scale = 1e-4
    return optimizer


def test_gradients_are_divided_by_the_loss_scale_once() -> None:
    model = Linear(4, 2)
    optimizer = scaled_optimizer(model)
    before = model.weight.detach().clone()
    optimizer.backward(model(torch.ones(3, 4)).sum())
    gradient = model.weight.grad
    assert gradient is not None
    assert torch.equal(gradient, torch.full((2, 4), 3 * 128.0))
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    assert torch.equal(gradient, torch.full((2, 4), 3.0))
    assert not torch.equal(model.weight, before)


def test_weights_do_not_change_after_an_overflow() -> None:
    model = Linear(4, 2)
    optimizer = scaled_optimizer(model)
    before = model.weight.detach().clone()
    optimizer.backward(model(torch.ones(3, 4)).sum() * torch.inf)
    optimizer.clip_grad_norm(1.0)
    optimizer.step()
    assert torch.equal(model.weight, before)
    assert optimizer.scaler.get_scale() == 64


@pytest.mark.parametrize(("has_xla", "flags"), [(False, []), (False, ["--tpu"]), (True, [])])
def test_bfloat16_needs_a_tpu_only_with_torch_xla(
    has_xla: bool, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = object() if has_xla else None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    words = ["data", "--bf16", "--task", "translation", "--arch", "transformer_tiny", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    assert args.bf16
    assert args.tpu is has_xla


def losses(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"\bloss=([\d.]+)", printed)]


@pytest.mark.parametrize("arch", ["shape_transformer_tiny", "pointer_transformer_tiny"])
@pytest.mark.slow
def test_loss_curve_is_that_of_single_precision(arch: str, toy_data: Path, tmp_path: Path) -> None:
    flags = ("--max-update", "30", "--log-interval", "10", "--no-epoch-checkpoints")
    single = losses(train(toy_data, tmp_path / "single", *flags, arch=arch))
    mixed = losses(train(toy_data, tmp_path / "mixed", *flags, "--amp", arch=arch))
    assert single[2] < 0.8 * single[0]
    assert mixed == pytest.approx(single, rel=0.03)
    assert (mixed != single) == has_bfloat16_units()
    stored = weights(tmp_path / "mixed/checkpoint_last.pt")
    assert all(each.dtype is not torch.bfloat16 for each in stored.values())


def test_the_loss_of_a_language_model_is_summed_in_float32() -> None:
    """fairseq sums it in the type of the states. In float16, the sum over 12,800 words is inf."""
    from fairseq.criterions.adaptive_loss import AdaptiveLoss
    from fairseq.data import Dictionary

    from fairseq_ssl.models.recurrent_models import (
        RecurrentConfig,
        RecurrentDecoder,
        RecurrentLanguageModel,
    )

    cfg = RecurrentConfig(recurrent_embed_dim=4, recurrent_hidden_dim=4, recurrent_dropout=0.0)
    dictionary = Dictionary()
    for word in "abcdefg":
        dictionary.add_symbol(word)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = RecurrentLanguageModel(RecurrentDecoder(cfg, dictionary))
    words = torch.randint(4, len(dictionary), (9, 50), generator=torch.Generator().manual_seed(1))
    batch = {"net_input": {"src_tokens": words}, "target": words, "ntokens": words.numel()}
    loss = AdaptiveLoss(task, False)
    exact = loss(model, batch)[0]
    # The LSTM of oneDNN needs AVX-512 in bfloat16.
    with torch.autocast("cpu", torch.bfloat16), torch.backends.mkldnn.flags(enabled=False):
        found = loss(model, batch)[0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=0)
