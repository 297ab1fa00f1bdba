"""The edit loss equals a loop over positions. Logged counts."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError

fairseq_ssl.register()
from fairseq.logging import metrics  # noqa: E402

from fairseq_ssl.criterions import edit_cross_entropy  # noqa: E402
from fairseq_ssl.criterions.edit_cross_entropy import EditCrossEntropy  # noqa: E402
from fairseq_ssl.modules.edit_layers import EditLogits  # noqa: E402

TASK: Any = SimpleNamespace(target_dictionary=None, source_dictionary=None)
LABELS = [0, 3, 0, 0, 1, 0, 2]
LENGTHS = [4, 3, 3]
"""Labels of three sentences with 3, 2 and 2 positions."""


class Fixed(nn.Module):
    def __init__(self, edits: torch.Tensor, errors: torch.Tensor | None = None) -> None:
        super().__init__()
        self.logits = EditLogits(edits, errors)

    def forward(self, **net_input: Any) -> EditLogits:
        return self.logits


def criterion(**changes: Any) -> EditCrossEntropy:
    settings = {"edit_copy_weight": 0.4, "label_smoothing": 0.0}
    return EditCrossEntropy(TASK, **{**settings, "sentence_avg": False, **changes})


def sample() -> dict[str, Any]:
    return {
        "net_input": {"src_tokens": None, "src_lengths": torch.tensor(LENGTHS)},
        "labels": torch.tensor(LABELS),
        "ntokens": len(LABELS),
        "nsentences": len(LENGTHS),
    }


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("copy_weight", [0.4, 1.0])
def test_loss_equals_the_reference(copy_weight: float, smoothing: float) -> None:
    edits = torch.randn(len(LABELS), 5, dtype=torch.double)
    wanted = 0.0
    for row, label in zip(edits.float().tolist(), LABELS, strict=True):
        total = math.log(sum(map(math.exp, row)))
        losses = [total - score for score in row]
        one = (1 - smoothing) * losses[label] + smoothing * sum(losses) / len(losses)
        wanted += one * (copy_weight if label == 0 else 1.0)
    made = criterion(edit_copy_weight=copy_weight, label_smoothing=smoothing)
    loss, size, _ = made(Fixed(edits), sample())
    assert float(loss) == pytest.approx(wanted, rel=1e-5)
    assert size == len(LABELS)
    _, size, _ = criterion(sentence_avg=True)(Fixed(edits), sample())
    assert size == len(LENGTHS)


def test_error_detection_adds_its_loss() -> None:
    edits, errors = torch.randn(len(LABELS), 5), torch.randn(len(LABELS))
    plain, _, _ = criterion()(Fixed(edits), sample())
    both, _, _ = criterion()(Fixed(edits, errors), sample())
    wanted = sum(
        math.log1p(math.exp(-score if label else score))
        for score, label in zip(errors.tolist(), LABELS, strict=True)
    )
    assert float(both - plain) == pytest.approx(wanted, rel=1e-4)


def test_logged_metrics() -> None:
    # The second and the fifth are correct. Two sentences have an error.
    made = [0, 3, 1, 0, 1, 0, 1]
    edits = nn.functional.one_hot(torch.tensor(made), 5).float()
    _, _, log = criterion()(Fixed(edits), sample())
    with metrics.aggregate(new_root=True) as found:
        EditCrossEntropy.reduce_metrics([log, log])
    values = found.get_smoothed_values()
    assert values["precision"] == 50.0
    assert values["recall"] == pytest.approx(66.67)
    assert values["f05"] == pytest.approx(100 * 1.25 * 2 / (4 + 0.25 * 3), abs=0.01)
    assert values["exact"] == pytest.approx(33.33)


def test_missing_labels_are_rejected() -> None:
    without = sample()
    del without["labels"]
    with pytest.raises(ConfigurationError, match="edit labels"):
        criterion()(Fixed(torch.randn(7, 5)), without)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_cross_entropy_equals_torch_in_blocks(
    smoothing: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(edit_cross_entropy.BLOCKS, "cpu", 13)  # two of seven positions
    labels = torch.tensor(LABELS)
    scores = (3 * torch.randn(len(LABELS), 5)).to(dtype).requires_grad_()
    exact = scores.detach().to(torch.promote_types(dtype, torch.float32)).requires_grad_()
    weights = torch.rand(len(LABELS), dtype=exact.dtype)
    losses = edit_cross_entropy.cross_entropy(scores, labels, smoothing)
    wanted = nn.functional.cross_entropy(exact, labels, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(losses, wanted)
    (losses * weights).sum().backward()  # type: ignore[no-untyped-call]
    (wanted * weights).sum().backward()  # type: ignore[no-untyped-call]
    assert exact.grad is not None
    torch.testing.assert_close(scores.grad, exact.grad.to(dtype))
