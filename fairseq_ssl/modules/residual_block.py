"""Blocks of dilated convolutions with a way around them, and stacks of such blocks (ByteNet)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.batch_norm import RowBatchNorm
from fairseq_ssl.modules.dilated_convolution import DilatedConvolution
from fairseq_ssl.modules.real_positions import RealPositions

NORMS = ("batch", "layer", "none")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "selu": functional.selu,
}
AUTHOR = "author"
GAINS = {"he": 6.0, "lecun": 3.0}
"""Weights are drawn from +- sqrt(gain / fan-in)."""
INITS = (AUTHOR, *GAINS)


@dataclass(frozen=True)
class StackSizes:
    """What decides the shape of a stack and how it computes."""

    dim: int
    kernel: int
    sets: int
    dilations: tuple[int, ...]
    is_causal: bool
    is_compressed: bool = True
    norm: str = "layer"
    activation: str = "relu"
    init: str = "he"
    residual_scale: float = 1.0
    """Of what a block adds; 0 for 1 / sqrt(2 L), L the blocks of the stack."""
    dropout: float = 0.0

    @property
    def width(self) -> int:
        """The channels of the dilated convolutions."""
        return self.dim // 2 if self.is_compressed else self.dim

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.sets * len(self.dilations)

    @property
    def scale(self) -> float:
        """What each block's output is multiplied by."""
        return self.residual_scale or 1 / math.sqrt(2 * self.blocks)


class NormedActivation(nn.Module):
    """A norm, or none, and an activation, of rows [rows, dim]."""

    def __init__(self, dim: int, sizes: StackSizes) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[sizes.activation]
        self.norm: nn.Module = nn.Identity()
        if sizes.norm == "batch":
            self.norm = RowBatchNorm(dim)
        elif sizes.norm == "layer":
            self.norm = nn.LayerNorm(dim)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the activations."""
        return self.activation(self.norm(rows))


class ResidualBlock(nn.Module):
    """x + scale f(x), f a dilated convolution with norms and activations before it.

    Compressed, one linear map halves the channels before the convolution and another restores
    them after it, each with its norm and activation.
    """

    def __init__(self, sizes: StackSizes, dilation: int) -> None:
        super().__init__()
        self.scale = sizes.scale
        self.dropout = sizes.dropout
        has_bias = sizes.norm == "none"  # a norm that follows takes a bias away
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

    def forward(self, rows: Tensor, positions: RealPositions) -> Tensor:
        """Return the next block's rows [rows, dim], which are the real ones among `positions`."""
        entered = positions.spread(self.before(rows))
        return self._leave(rows, positions.rows(self.convolution(entered)))

    def step(self, rows: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the rows of one position more [rows, dim]; see DilatedConvolution.step."""
        return self._leave(rows, self.convolution.step(self.before(rows), past, step))

    def _leave(self, rows: Tensor, convolved: Tensor) -> Tensor:
        change = functional.dropout(self.after(convolved), self.dropout, self.training)
        return rows + (change if self.scale == 1 else self.scale * change)


class DilatedStack(nn.Module):
    """Sets of blocks; in each set the dilation grows from block to block."""

    def __init__(self, sizes: StackSizes) -> None:
        super().__init__()
        self.width = sizes.width
        self.blocks = nn.ModuleList(
            ResidualBlock(sizes, dilation)
            for _ in range(sizes.sets)
            for dilation in sizes.dilations
        )
        draw_weights(self, sizes.init)

    @property
    def frames(self) -> int:
        """How many past states all blocks keep in decoding."""
        return sum(block.convolution.reach for block in self._all_blocks())

    def forward(self, rows: Tensor, positions: RealPositions) -> Tensor:
        """Return the last block's rows [rows, dim]."""
        for block in self._all_blocks():
            rows = block(rows, positions)
        return rows

    def step(self, rows: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the rows of one position more [rows, dim].

        Args:
            rows: of that position, a sequence a row [rows, dim]
            past: what all blocks keep [rows, frames, width], changed here
            step: how many positions there were before
        """
        begin = 0
        for block in self._all_blocks():
            reach = block.convolution.reach
            rows = block.step(rows, past.narrow(1, begin, reach), step)
            begin += reach
        return rows

    def _all_blocks(self) -> list[ResidualBlock]:
        return list(self.blocks)  # type: ignore[arg-type]


def draw_weights(module: nn.Module, init: str) -> None:
    """Draw the weights of all linear maps; biases are zero.

    he, of the slides, and lecun are those of He et al. and LeCun et al. author is what the library
    of the slides' author draws under the name of He et al.: +- (fan-in fan-out)^(-1/4), about half
    as wide.
    """
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            if init == AUTHOR:
                bound = (linear.in_features * linear.out_features) ** -0.25
            else:
                bound = math.sqrt(GAINS[init] / linear.in_features)
            nn.init.uniform_(linear.weight, -bound, bound)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
