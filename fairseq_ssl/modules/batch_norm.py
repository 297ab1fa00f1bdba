"""Batch norm of rows, whose running statistics can be kept as they are for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional


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
        """Normalise [rows, dim], in training by the statistics of these rows."""
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
