"""ByteNet layers: dilated convolutions, residual blocks, masked batch norm, dynamic unfolding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import ExactBuffers, Rows


class RowBatchNorm(ExactBuffers):
    """Batch norm for rows without padding.

    If `updates_statistics` is False, training does not change the running statistics.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.updates_statistics = True
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, rows: Tensor) -> Tensor:
        """Normalize `rows` [rows, dim].

        Use batch statistics in training with two or more rows, and running statistics otherwise.
        """
        uses_batch = self.training and len(rows) > 1
        uses_running = self.updates_statistics or not uses_batch
        mean, var = (self.running_mean, self.running_var) if uses_running else (None, None)
        normed = functional.batch_norm(
            rows, mean, var, training=uses_batch, momentum=self.momentum, eps=self.eps
        )
        return normed * self.weight + self.bias


@contextmanager
def freeze_statistics(model: nn.Module) -> Iterator[None]:
    """Context manager in which the batch norms in `model` do not update running statistics."""
    norms = [module for module in model.modules() if isinstance(module, RowBatchNorm)]
    for norm in norms:
        norm.updates_statistics = False
    try:
        yield
    finally:
        for norm in norms:
            norm.updates_statistics = True


class DilatedConvolution(nn.Module):
    """A dilated convolution over time with zero padding, centered or causal.

    The convolution is computed as a linear layer over the concatenated inputs, earliest first.
    """

    def __init__(
        self, dim: int, kernel: int, dilation: int, is_causal: bool, bias: bool = True
    ) -> None:
        super().__init__()
        assert is_causal or kernel % 2, "an even kernel has no center"
        self.dim = dim
        self.kernel = kernel
        self.dilation = dilation
        self.is_causal = is_causal
        self.linear = nn.Linear(kernel * dim, dim, bias=bias)

    @property
    def reach(self) -> int:
        """Distance between the first and last input positions that an output position reads."""
        return (self.kernel - 1) * self.dilation

    def forward(self, states: Tensor) -> Tensor:
        """Return the convolution [batch, time, dim] of `states`, which must be zero at padding."""
        before = self.reach if self.is_causal else self.reach // 2
        time = states.size(1)
        padded = functional.pad(states, (0, 0, before, self.reach - before))
        inputs = [padded.narrow(1, tap * self.dilation, time) for tap in range(self.kernel)]
        convolved: Tensor = self.linear(torch.cat(inputs, 2))
        return convolved

    def step(self, state: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the output [rows, dim] of a causal convolution at the position `step`.

        Args:
            state: [rows, dim], the input at this position.
            past: [rows, reach, dim], a ring buffer of earlier inputs, initially 0, which is updated
                in place. The input of step t is at index t modulo `reach`.
            step: index of the position.
        """
        slots = [(step + tap * self.dilation) % self.reach for tap in range(self.kernel - 1)]
        inputs = [past[:, slot] for slot in slots]
        convolved: Tensor = self.linear(torch.cat([*inputs, state], 1))
        if self.reach:
            past[:, step % self.reach] = state
        return convolved


UNKNOWN_SLOPE = -1.0
SLOPE_UNITS = 100
"""Factor that converts slopes to integers for storage, so that products with lengths are exact."""


class Unfolding(ExactBuffers):
    """Dynamic unfolding: the encoder returns max(|s|, a |s| + b) columns for a source s.

    The buffer `line` stores a and b, so checkpoints contain them.
    """

    line: Tensor
    """[2], a in hundredths, and b."""

    def __init__(
        self, slope: float = UNKNOWN_SLOPE, offset: float = 0.0, *, keep: bool = False
    ) -> None:
        """Set a to `slope` and b to `offset`. By default, a checkpoint must be loaded to set them.

        With `keep`, the values in a checkpoint are ignored.
        """
        super().__init__()
        self.keep = keep
        units = slope if slope == UNKNOWN_SLOPE else float(round(SLOPE_UNITS * slope))
        self.register_buffer("line", torch.tensor([units, offset]))

    def forward(self, lengths: Tensor) -> Tensor:
        """Return the number of columns [batch] for source `lengths` [batch], which include </s>."""
        slope, offset = self.line.round().long()
        columns = (
            torch.div(slope * lengths + SLOPE_UNITS - 1, SLOPE_UNITS, rounding_mode="floor")
            + offset
        )
        return torch.maximum(columns, lengths)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """If `keep` is set, replace a and b in the state dict with this module's values."""
        if self.keep:
            state_dict[f"{name}.line"] = self.line.detach().clone()

    @property
    def is_known(self) -> bool:
        """True if a and b have been set or loaded."""
        return bool(self.line[0] >= 0)


NORMS = ("batch", "layer", "none")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "selu": functional.selu,
}
GAINS = {"relu": 6.0, "selu": 3.0}
"""Gains by activation. Initial weights are uniform within +- sqrt(gain / fan-in)."""


@dataclass(frozen=True)
class StackSizes:
    """Sizes and options of a `DilatedStack`."""

    dim: int
    kernel: int
    sets: int
    dilations: tuple[int, ...]
    is_causal: bool
    is_compressed: bool = True
    norm: str = "layer"
    activation: str = "relu"
    dropout: float = 0.0

    @property
    def width(self) -> int:
        """Number of channels in the dilated convolutions."""
        return self.dim // 2 if self.is_compressed else self.dim


class NormedActivation(nn.Module):
    """An optional norm followed by an activation, for rows [rows, dim]."""

    def __init__(self, dim: int, sizes: StackSizes) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[sizes.activation]
        self.norm: nn.Module = nn.Identity()
        if sizes.norm == "batch":
            self.norm = RowBatchNorm(dim)
        elif sizes.norm == "layer":
            self.norm = nn.LayerNorm(dim)

    def forward(self, rows: Tensor) -> Tensor:
        """Normalize `rows` [rows, dim], if there is a norm, and apply the activation."""
        return self.activation(self.norm(rows))


class ResidualBlock(nn.Module):
    """A residual block x + f(x), where f is a norm, an activation and a dilated convolution.

    In a compressed block, a linear layer halves the channels before the convolution and another
    linear layer restores them after it, each preceded by a norm and an activation.
    """

    def __init__(self, sizes: StackSizes, dilation: int) -> None:
        super().__init__()
        self.dropout = sizes.dropout
        has_bias = sizes.norm == "none"  # a norm would cancel the bias before it
        convolution_bias = has_bias or not sizes.is_compressed
        self.convolution = DilatedConvolution(
            sizes.width, sizes.kernel, dilation, sizes.is_causal, convolution_bias
        )
        self.before = nn.Sequential(NormedActivation(sizes.dim, sizes))
        self.after = nn.Sequential()
        if sizes.is_compressed:
            self.before.append(nn.Linear(sizes.dim, sizes.width, bias=has_bias))
            self.before.append(NormedActivation(sizes.width, sizes))
            self.after.append(NormedActivation(sizes.width, sizes))
            self.after.append(nn.Linear(sizes.width, sizes.dim))

    def forward(self, rows: Tensor, positions: Rows) -> Tensor:
        """Return the block's output [rows, dim] for the inputs `rows` at `positions`."""
        batch = positions.pad(self.before(rows))
        return self._add_residual(rows, positions.pack(self.convolution(batch)))

    def step(self, rows: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the output [rows, dim] at position `step`. See `DilatedConvolution.step`."""
        return self._add_residual(rows, self.convolution.step(self.before(rows), past, step))

    def _add_residual(self, rows: Tensor, convolved: Tensor) -> Tensor:
        change = functional.dropout(self.after(convolved), self.dropout, self.training)
        return rows + change


class DilatedStack(nn.Module):
    """Sets of residual blocks. Each set contains one block per dilation."""

    def __init__(self, sizes: StackSizes) -> None:
        super().__init__()
        self.width = sizes.width
        self.blocks = nn.ModuleList(
            ResidualBlock(sizes, dilation)
            for _ in range(sizes.sets)
            for dilation in sizes.dilations
        )
        init_weights(self, sizes.activation)

    @property
    def cache_size(self) -> int:
        """Total number of states per sequence that the blocks cache in incremental decoding."""
        return sum(block.convolution.reach for block in self._all_blocks())

    def forward(self, rows: Tensor, positions: Rows) -> Tensor:
        """Return the stack's output [rows, dim] for the inputs `rows` at `positions`."""
        for block in self._all_blocks():
            rows = block(rows, positions)
        return rows

    def step(self, rows: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the output [rows, dim] at the position `step`.

        Args:
            rows: [rows, dim], the input at this position, one row per sequence.
            past: [rows, cache_size, width], the ring buffers of all blocks, updated in place.
            step: index of the position.
        """
        begin = 0
        for block in self._all_blocks():
            reach = block.convolution.reach
            rows = block.step(rows, past.narrow(1, begin, reach), step)
            begin += reach
        return rows

    def _all_blocks(self) -> list[ResidualBlock]:
        return list(self.blocks)  # type: ignore[arg-type]


def init_weights(module: nn.Module, activation: str) -> None:
    """Initialize linear layers as in He et al. or, for selu, LeCun et al. Biases are 0."""
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            bound = math.sqrt(GAINS[activation] / linear.in_features)
            nn.init.uniform_(linear.weight, -bound, bound)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
