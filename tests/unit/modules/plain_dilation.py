"""Reference implementation of ByteNet's stacks, in loops over sentences and positions."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_ssl.modules.dilated_stack import DilatedConvolution, DilatedStack, StackSizes


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


def batch_normed(
    sentences: list[Tensor], scale: Tensor, shift: Tensor, eps: float = 1e-5
) -> list[Tensor]:
    """Normalize each channel by the mean and variance over the positions of all sentences."""
    out = [torch.zeros_like(states) for states in sentences]
    for channel in range(len(shift)):
        values = [float(state[channel]) for states in sentences for state in states]
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        for states, normed in zip(sentences, out, strict=True):
            normed[:, channel] = (states[:, channel] - mean) / (variance + eps) ** 0.5
            normed[:, channel] = scale[channel] * normed[:, channel] + shift[channel]
    return out


def layer_normed(
    sentences: list[Tensor], scale: Tensor, shift: Tensor, eps: float = 1e-5
) -> list[Tensor]:
    """Normalize each position by the mean and variance over its channels."""

    def normed(state: Tensor) -> Tensor:
        return (state - state.mean()) / (state.var(unbiased=False) + eps) ** 0.5

    return [torch.stack([scale * normed(s) + shift for s in states]) for states in sentences]


def stacked(stack: DilatedStack, sizes: StackSizes, sentences: list[Tensor]) -> list[Tensor]:
    """Run sentences, each [time, dim], through all blocks, with batch statistics."""

    def normed(states: list[Tensor], layer: torch.nn.Module) -> list[Tensor]:
        norm = layer.norm
        if sizes.norm == "batch":
            states = batch_normed(states, norm.weight, norm.bias)  # type: ignore[union-attr, arg-type]
        elif sizes.norm == "layer":
            states = layer_normed(states, norm.weight, norm.bias)  # type: ignore[union-attr, arg-type]
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
        sentences = [
            one + sizes.scale * change for one, change in zip(sentences, states, strict=True)
        ]
    return sentences
