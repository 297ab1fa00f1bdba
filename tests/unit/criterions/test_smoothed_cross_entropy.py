"""Cross-entropy with label smoothing in chunks, against fairseq's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)
from fairseq.models.transformer import TransformerDecoderBase, TransformerModel
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.criterions import criterion

PAD, ROWS, WORDS = 1, 7, 5
TARGET = torch.tensor([0, 4, PAD, 2, 2, PAD, 3])


def logits_of(dtype: torch.dtype) -> Tensor:
    torch.manual_seed(1)
    return (3 * torch.randn(ROWS, WORDS)).to(dtype).requires_grad_()


@pytest.mark.parametrize("chunk", [1, 2 * WORDS, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduce", [True, False])
def test_values_and_gradients_are_those_of_fairseq(
    dtype: torch.dtype, smoothing: float, reduce: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(criterion, "CPU_CHUNK", chunk)
    logits, same = logits_of(dtype), logits_of(dtype)
    found = criterion.smoothed_cross_entropy(logits, TARGET, smoothing, PAD, reduce)
    log_p = torch.log_softmax(same, -1, dtype=torch.float32)
    expected = label_smoothed_nll_loss(log_p, TARGET, smoothing, PAD, reduce)
    torch.testing.assert_close(found, expected)
    # Rows may have weights, and the second value may also have a gradient.
    weights = torch.rand_like(expected[0])
    for one, (loss, nll) in ((logits, found), (same, expected)):
        (weights * loss + 0.3 * nll).sum().backward()  # type: ignore[no-untyped-call]
        assert one.grad is not None
        assert one.grad.dtype == dtype
    torch.testing.assert_close(logits.grad, same.grad)


def count_calls(
    calls: list[Tensor], function: Callable[..., Tensor], *args: Any, **options: Any
) -> Tensor:
    calls.append(args[0])
    return function(*args, **options)


def model_of(kind: Any) -> Any:
    """Return a model without weights."""
    model, decoder = (object.__new__(one) for one in (kind, TransformerDecoderBase))
    for module in (model, decoder):
        torch.nn.Module.__init__(module)
    decoder.onnx_trace, decoder.adaptive_softmax = False, None
    model.decoder = decoder
    return model


class ScaledModel(TransformerModel):
    """A model whose probabilities are not the softmax of its logits."""

    def get_normalized_probs(self, net_output: Any, *args: Any, **options: Any) -> Any:
        return super().get_normalized_probs((net_output[0] / 2,), *args, **options)


class LastRow(LabelSmoothedCrossEntropyCriterion):
    """A criterion that reads the log-probabilities."""

    def get_lprobs_and_target(self, model: Any, net_output: Any, sample: Any) -> Any:
        log_p, target = super().get_lprobs_and_target(model, net_output, sample)
        assert float(log_p.detach().exp().sum()) == pytest.approx(len(log_p))
        return log_p[-1:], target[-1:]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (LabelSmoothedCrossEntropyCriterion, {}),
        (LabelSmoothedCrossEntropyCriterion, {"ignore_prefix_size": 1}),
        (LastRow, {}),
    ],
)
@pytest.mark.parametrize("model_kind", [TransformerModel, ScaledModel])
def test_the_patched_criterion_has_the_loss_of_fairseq(
    kind: type, options: dict[str, Any], model_kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairseq_ssl.register()
    chunks: list[Tensor] = []
    monkeypatch.setattr(torch, "log_softmax", partial(count_calls, chunks, torch.log_softmax))
    task = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD))
    patched = kind(task, False, 0.1, **options)
    model = model_of(model_kind)
    logits = logits_of(torch.float32).detach()[:6].view(3, 2, WORDS).transpose(0, 1)
    sample = {"target": TARGET[:6].view(2, 3)}
    loss, nll = patched.compute_loss(model, (logits,), sample)
    assert len(chunks) == (kind is not LastRow and model_kind is TransformerModel)
    stock = LabelSmoothedCrossEntropyCriterion.compute_loss.__wrapped__
    expected, expected_nll = stock(patched, model, (logits,), sample)
    torch.testing.assert_close((loss, nll), (expected, expected_nll))
