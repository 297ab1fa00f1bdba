"""ByteNet's stack of dilated convolutions, with masked batch norm and dynamic unfolding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import ExactBuffers


class RealPositions:
    """Turns states of a padded batch into those that count, row under row, and back.

    What works on single positions works on the rows, so that padding neither costs nor counts;
    what looks to the sides works on the batch, where all else is zero.
    """

    def __init__(self, real: Tensor, is_padded: bool = True) -> None:
        """Set the positions.

        Args:
            real: true for those that count [batch, time]
            is_padded: whether there are any others
        """
        self.batch, self.time = real.shape
        self.places = real.flatten().nonzero().squeeze(1) if is_padded else None

    @classmethod
    def of_lengths(cls, lengths: Tensor, time: int) -> RealPositions:
        """Return the first `lengths` [batch] of `time` positions."""
        return cls(torch.arange(time, device=lengths.device) < lengths.unsqueeze(1))

    @classmethod
    def all_of(cls, tokens: Tensor) -> RealPositions:
        """Return every position of `tokens` [batch, time]."""
        return cls(tokens, is_padded=False)

    def rows(self, states: Tensor) -> Tensor:
        """Return the states that count [rows, dim] of a batch [batch, time, dim]."""
        flat = states.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)

    def spread(self, rows: Tensor) -> Tensor:
        """Return a batch [batch, time, dim] of `rows` [rows, dim], and zeros."""
        if self.places is None:
            flat = rows
        else:
            blank = rows.new_zeros(self.batch * self.time, rows.size(1))
            flat = blank.index_copy(0, self.places, rows)
        return flat.view(self.batch, self.time, -1)


class RowBatchNorm(nn.Module):
    """Batch norm with scale and shift, gamma and beta, of rows that hold no padding."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.learns_statistics = True
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, rows: Tensor) -> Tensor:
        """Normalize [rows, dim], in training by the statistics of these rows."""
        by_rows = self.training and len(rows) > 1
        learns = self.learns_statistics or not by_rows
        mean, var = (self.running_mean, self.running_var) if learns else (None, None)
        normed = functional.batch_norm(
            rows, mean, var, training=by_rows, momentum=self.momentum, eps=self.eps
        )
        return normed * self.weight + self.bias


@contextmanager
def kept_statistics(model: nn.Module) -> Iterator[None]:
    """Let the running statistics in `model` be as they are for as long as this lasts."""
    norms = [module for module in model.modules() if isinstance(module, RowBatchNorm)]
    for norm in norms:
        norm.learns_statistics = False
    try:
        yield
    finally:
        for norm in norms:
            norm.learns_statistics = True


class DilatedConvolution(nn.Module):
    """Each position sees `kernel` positions, `dilation` apart.

    They lie around it, or if it is causal, the last of them is the position itself. Beyond the
    ends there are zeros. The weight is that of one linear map of all that is seen, the earliest
    position first.
    """

    def __init__(
        self, dim: int, kernel: int, dilation: int, is_causal: bool, bias: bool = True
    ) -> None:
        super().__init__()
        assert is_causal or kernel % 2, "an even kernel has no middle"
        self.dim = dim
        self.kernel = kernel
        self.dilation = dilation
        self.is_causal = is_causal
        self.linear = nn.Linear(kernel * dim, dim, bias=bias)

    @property
    def reach(self) -> int:
        """How far apart the first and the last position seen are."""
        return (self.kernel - 1) * self.dilation

    def forward(self, states: Tensor) -> Tensor:
        """Convolve states [batch, time, dim]; what is padding must be zero."""
        before = self.reach if self.is_causal else self.reach // 2
        time = states.size(1)
        padded = functional.pad(states, (0, 0, before, self.reach - before))
        seen = [padded.narrow(1, tap * self.dilation, time) for tap in range(self.kernel)]
        convolved: Tensor = self.linear(torch.cat(seen, 2))
        return convolved

    def step(self, state: Tensor, past: Tensor, step: int) -> Tensor:
        """Return the next position [rows, dim] of a causal convolution.

        Args:
            state: at that position [rows, dim]
            past: what was there before [rows, reach, dim], the state of step t at t modulo the
                reach; zeros to begin with, and changed here
            step: how many positions there were before
        """
        slots = [(step + tap * self.dilation) % self.reach for tap in range(self.kernel - 1)]
        seen = [past[:, slot] for slot in slots]
        convolved: Tensor = self.linear(torch.cat([*seen, state], 1))
        if self.reach:
            past[:, step % self.reach] = state
        return convolved


UNKNOWN_SLOPE = -1.0
SLOPES = 100
"""Slopes are hundredths, so that a product with a length is exact."""


class Unfolding(ExactBuffers):
    """The line a |s| + b of ByteNet's dynamic unfolding, kept with the weights.

    A source has at least as many columns as tokens.
    """

    line: Tensor

    def __init__(self, slope: float = UNKNOWN_SLOPE, offset: float = 0.0) -> None:
        """Set a and b; without, a checkpoint must bring them."""
        super().__init__()
        hundredths = slope if slope == UNKNOWN_SLOPE else float(round(SLOPES * slope))
        self.register_buffer("line", torch.tensor([hundredths, offset]))

    def forward(self, lengths: Tensor) -> Tensor:
        """Return the number of columns for sources of `lengths` [batch], their ends counted."""
        slope, offset = self.line.round().long()
        columns = torch.div(slope * lengths + SLOPES - 1, SLOPES, rounding_mode="floor") + offset
        return torch.maximum(columns, lengths)

    @property
    def is_known(self) -> bool:
        """Whether there is a line."""
        return bool(self.line[0] >= 0)


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
