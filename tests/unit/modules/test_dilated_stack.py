"""Stacks of dilated convolutions equal a reference, in padded batches and step by step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fairseq_ssl.modules.dilated_stack import (
    DilatedConvolution,
    DilatedStack,
    RowBatchNorm,
    StackSizes,
    freeze_statistics,
)
from fairseq_ssl.modules.functional import Rows

LENGTHS = (7, 3, 1, 12)
KINDS = {
    "encoder": StackSizes(8, 5, 2, (1, 2, 4), is_causal=False, norm="batch"),
    "decoder": StackSizes(8, 3, 2, (1, 2, 4), is_causal=True, norm="layer"),
    "simplified": StackSizes(6, 3, 1, (1, 3), is_causal=False, is_compressed=False, norm="batch"),
    "selu": StackSizes(8, 3, 2, (1, 2), is_causal=True, norm="none", activation="selu"),
    "no norm": StackSizes(8, 1, 1, (1, 2), is_causal=True, norm="none"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def convolved(convolution: DilatedConvolution, states: Tensor) -> Tensor:
    """Convolve one sentence [time, dim]."""
    dim, time = convolution.dim, len(states)
    weight = convolution.linear.weight
    bias: Tensor | None = convolution.linear.bias
    last = convolution.kernel - 1
    middle = last if convolution.is_causal else last // 2
    out = []
    for t in range(time):
        total = torch.zeros(dim) if bias is None else bias.clone()
        for tap in range(convolution.kernel):
            place = t + (tap - middle) * convolution.dilation
            if 0 <= place < time:
                total = total + weight[:, tap * dim : (tap + 1) * dim] @ states[place]
        out.append(total)
    return torch.stack(out)


def batch_normed(sentences: list[Tensor], scale: Tensor, shift: Tensor) -> list[Tensor]:
    """Normalize each channel by the mean and variance over the positions of all sentences."""
    joined = torch.cat(sentences)
    normed = (joined - joined.mean(0)) / (joined.var(0, unbiased=False) + 1e-5).sqrt()
    return list(torch.split(scale * normed + shift, [len(states) for states in sentences]))


def layer_normed(states: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalize each position by the mean and variance over its channels."""
    variance = states.var(1, unbiased=False, keepdim=True)
    return scale * (states - states.mean(1, keepdim=True)) / (variance + 1e-5).sqrt() + shift


def stacked(stack: DilatedStack, sizes: StackSizes, sentences: list[Tensor]) -> list[Tensor]:
    """Run sentences, each [time, dim], through all blocks, with batch statistics."""

    def normed(states: list[Tensor], layer: torch.nn.Module) -> list[Tensor]:
        norm = layer.norm
        if sizes.norm == "batch":
            states = batch_normed(states, norm.weight, norm.bias)  # type: ignore[union-attr, arg-type]
        elif sizes.norm == "layer":
            states = [layer_normed(one, norm.weight, norm.bias) for one in states]  # type: ignore[union-attr, arg-type]
        function = torch.selu if sizes.activation == "selu" else torch.relu
        return [function(one) for one in states]

    for block in stack.blocks:
        states = sentences
        for part in (block.before, block.convolution, block.after):
            if isinstance(part, DilatedConvolution):
                states = [convolved(part, one) for one in states]
                continue
            for layer in part:  # type: ignore[union-attr]
                is_linear = isinstance(layer, torch.nn.Linear)
                states = [layer(one) for one in states] if is_linear else normed(states, layer)
        sentences = [one + change for one, change in zip(sentences, states, strict=True)]
    return sentences


def built(kind: str) -> DilatedStack:
    """Build a stack with random biases, and random scales and shifts of the norms."""
    torch.manual_seed(1)
    stack = DilatedStack(KINDS[kind])
    for weight in stack.parameters():
        if weight.ndim == 1:
            torch.nn.init.normal_(weight)
    return stack


def sentences(dim: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(length, dim, generator=generator) for length in LENGTHS]


def run(stack: DilatedStack, batch: list[Tensor], longer: int = 0) -> list[Tensor]:
    """Return the output of a stack for sentences, run as one padded batch."""
    lengths = torch.tensor([len(one) for one in batch])
    time = int(lengths.max()) + longer
    padded = torch.full((len(batch), time, batch[0].size(1)), 9.0)
    for row, one in enumerate(batch):
        padded[row, : len(one)] = one
    positions = Rows.of_mask(torch.arange(time) < lengths.unsqueeze(1))
    out = positions.pad(stack(positions.pack(padded), positions))
    for row, length in enumerate(lengths):
        assert not out[row, length:].any()
    return [out[row, :length] for row, length in enumerate(lengths)]


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (3, 4), (5, 2)])
@pytest.mark.parametrize("is_causal", [True, False])
def test_convolution_equals_the_reference(kernel: int, dilation: int, is_causal: bool) -> None:
    torch.manual_seed(1)
    convolution = DilatedConvolution(4, kernel, dilation, is_causal)
    states = torch.randn(2, 9, 4)
    plain = torch.stack([convolved(convolution, one) for one in states])
    torch.testing.assert_close(convolution(states), plain)


@every_kind
def test_padded_batch_equals_the_reference(kind: str) -> None:
    stack = built(kind).train()
    batch = sentences(KINDS[kind].dim)
    with torch.no_grad():
        plain = stacked(stack, KINDS[kind], batch)
        for got, expected in zip(run(stack, batch, longer=2), plain, strict=True):
            torch.testing.assert_close(got, expected, atol=2e-5, rtol=1e-4)


@every_kind
def test_evaluation_does_not_depend_on_the_batch(kind: str) -> None:
    stack = built(kind)
    batch = sentences(KINDS[kind].dim)
    run(stack.train(), batch)  # updates the running statistics
    together = run(stack.eval(), batch, longer=3)
    for one, expected in zip(batch, together, strict=True):
        torch.testing.assert_close(run(stack, [one])[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].is_causal])
def test_incremental_steps_equal_the_full_forward(kind: str) -> None:
    stack, sizes = built(kind).eval(), KINDS[kind]
    states = torch.randn(3, 40, sizes.dim)
    positions = Rows(3, 40, None)
    whole = positions.pad(stack(positions.pack(states), positions))
    past = torch.zeros(3, stack.cache_size, stack.width)
    for step in range(40):
        made = stack.step(states[:, step], past, step)
        torch.testing.assert_close(made, whole[:, step], atol=1e-5, rtol=1e-5)


def test_running_statistics_ignore_padding() -> None:
    norm = RowBatchNorm(2, momentum=0.25)
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0]])
    norm(rows)
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.75, 1.0]))
    torch.testing.assert_close(norm.running_var, torch.tensor([0.75 + 1.0, 0.75 + 1.0]))
    with freeze_statistics(torch.nn.Sequential(norm)):
        kept = norm(rows + 7)
    torch.testing.assert_close(kept, norm(rows))
    torch.testing.assert_close(norm.running_mean[0], torch.tensor(0.75 * 0.75 + 0.25 * 3))


def test_running_statistics_stay_in_float32() -> None:
    """Small updates and variances above 65504 are lost in float16."""
    norm = RowBatchNorm(2).half()
    normed = norm(torch.tensor([[1000.0, 2.0], [-1000.0, 6.0]]).half())
    assert normed.dtype is norm.weight.dtype is torch.float16
    assert norm.running_var.dtype is torch.float32
    torch.testing.assert_close(norm.running_var, torch.tensor([0.9 + 2e5, 0.9 + 0.8]))


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2), ("selu", 1)])
def test_initial_weights_are_uniform_with_the_expected_variance(activation: str, gain: int) -> None:
    sizes = StackSizes(200, 3, 1, (1,), is_causal=True, norm="none", activation=activation)
    for module in DilatedStack(sizes).modules():
        if isinstance(module, torch.nn.Linear):
            expected = gain / module.in_features
            weight = module.weight.detach()
            assert math.isclose(float(weight.var()), expected, rel_tol=0.05)
            assert float(weight.abs().max()) <= math.sqrt(3 * expected) * (1 + 1e-6)
