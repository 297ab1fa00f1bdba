"""Imitators: networks that predict an expert's labels from windows of a few subwords (MEIN)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import mix_bits, shifted_right

SLOPE = 0.01
"""Of the leaky ReLU where its input is negative."""
PAYS_BELOW = 0.5
"""Distinct subwords in a batch over all of its subwords: where projecting each once is faster."""


class WindowLogits(NamedTuple):
    """What imitators say of each window of all texts, end to end."""

    logits: list[Tensor]
    """[windows, classes] of each imitator."""
    texts: Tensor
    """[windows]: which text of the batch each window is of."""
    counts: Tensor
    """[batch]: windows of each text, J of the thesis."""


class Imitators(nn.Module):
    """p_ij(y | X_{j-c_i : j+c_i}), equation 3.8: a convolution of one layer for each i."""

    def __init__(
        self,
        vocabulary: int,
        classes: int,
        windows: Sequence[int],
        padding: int,
        dim: int = 512,
        channels: int = 512,
        separate_embeddings: bool = False,
        sparse_gradients: bool = False,
    ) -> None:
        """Make them, at random.

        Args:
            vocabulary: subwords
            classes: |Y|
            windows: c_i of each imitator, which sees 2 c_i + 1 subwords
            padding: the id that fills up shorter texts
            dim: of the embeddings
            channels: N of the thesis
            separate_embeddings: one table for each imitator, in place of one for all
            sparse_gradients: whether the gradient of a table has only the rows that a batch has
        """
        super().__init__()
        self.windows = tuple(windows)
        self.padding = padding
        self.by_types: bool | None = None
        """Whether to project each distinct subword once; None: where that is faster."""
        tables = len(self.windows) if separate_embeddings else 1
        self.embeddings = nn.ModuleList(
            nn.Embedding(vocabulary, dim, padding_idx=padding, sparse=sparse_gradients)
            for _ in range(tables)
        )
        self.convolutions = nn.ModuleList(
            nn.Conv1d(dim, channels, 2 * window + 1, padding=window) for window in self.windows
        )
        self.outputs = nn.ModuleList(nn.Linear(channels, classes) for _ in self.windows)

    def forward(self, tokens: Tensor) -> WindowLogits:
        """Return the logits of all windows; texts are padded on the right [batch, time]."""
        is_real = tokens.ne(self.padding)
        kinds, places = torch.unique(tokens, return_inverse=True)
        by_types = self.by_types
        if by_types is None:
            by_types = len(kinds) < PAYS_BELOW * tokens.numel()
        logits = []
        for number, window in enumerate(self.windows):
            embedding = self.embeddings[number % len(self.embeddings)]
            convolution = self.convolutions[number]
            if by_types:
                hidden = _hidden_by_types(embedding, convolution, window, kinds, places, is_real)
            else:
                embedded = embedding(tokens).transpose(1, 2)
                hidden = convolution(embedded).transpose(1, 2)[is_real]
            logits.append(self.outputs[number](functional.leaky_relu(hidden, SLOPE)))
        return WindowLogits(logits, is_real.nonzero()[:, 0], is_real.sum(1))

    def alphas(self, tokens: Tensor) -> Tensor:
        """Return alpha_i of each text, equation 3.7 [imitators, batch, classes]."""
        found = self(tokens)
        return torch.stack([averaged(logits, found) for logits in found.logits])


def _hidden_by_types(
    embedding: nn.Module,
    convolution: nn.Module,
    window: int,
    kinds: Tensor,
    places: Tensor,
    is_real: Tensor,
) -> Tensor:
    """Return what the convolution makes of the real places [windows, channels].

    o_j = b + sum_k W_k e(x_{j+k}): each W_k e is computed once for each distinct subword, all k
    beside each other, and looked up where the subword stands. The subword after the last stands
    for what is beyond a text.

    Args:
        embedding: of subwords
        convolution: from their dim to channels
        window: c, so that k goes from -c to c
        kinds: the distinct ids of the batch
        places: where each token is among them [batch, time]
        is_real: tokens that are no padding [batch, time]
    """
    assert isinstance(convolution, nn.Conv1d)
    assert convolution.bias is not None
    size = 2 * window + 1
    table = functional.pad(embedding(kinds), (0, 0, 0, 1))
    weight = convolution.weight.permute(2, 0, 1).flatten(0, 1)
    projected = functional.linear(table, weight).view(-1, convolution.out_channels)
    padded = functional.pad(places, (window, window), value=len(kinds))
    around = padded.unfold(1, size, 1)[is_real] * size
    rows = around + torch.arange(size, device=around.device)
    hidden: Tensor = functional.embedding_bag(rows, projected, mode="sum")
    return hidden + convolution.bias


def averaged(logits: Tensor, found: WindowLogits) -> Tensor:
    """Return log((1/J) sum_j p_j) of each text, equation 3.7 [batch, classes], in float32."""
    probabilities = logits.float().softmax(-1)
    total = probabilities.new_zeros(len(found.counts), logits.size(-1))
    total = total.index_add(0, found.texts, probabilities)
    mean = total / found.counts.unsqueeze(1).clamp(min=1)
    return mean.clamp(min=torch.finfo(torch.float32).tiny).log()


class RandomImitators(nn.Module):
    """Random vectors in the place of imitators: the control of table 3.3.

    Each text has its own, of standard normal logits, the same whenever it comes.
    """

    def __init__(self, classes: int, count: int, padding: int, seed: int = 1) -> None:
        super().__init__()
        self.classes = classes
        self.windows = tuple(range(1, count + 1))
        self.padding = padding
        self.seed = seed

    def alphas(self, tokens: Tensor) -> Tensor:
        """Return a logarithm of probabilities for each text [imitators, batch, classes]."""
        size = len(self.windows) * self.classes
        marks = _marks(tokens.masked_fill(tokens.eq(self.padding), -1)) ^ (self.seed * MULTIPLIER)
        steps = torch.arange(1, 2 * size + 1, device=tokens.device) * STEP
        bits = mix_bits(marks.unsqueeze(1) + steps)
        uniform = shifted_right(bits, 11).double().add(0.5) / float(1 << 53)
        radius, angle = uniform.chunk(2, dim=1)
        normal = (-2 * radius.log()).sqrt() * (2 * math.pi * angle).cos()
        shaped = normal.view(len(tokens), len(self.windows), self.classes).transpose(0, 1)
        return shaped.float().log_softmax(-1)


MULTIPLIER, STEP = 0x5851F42D4C957F2D, 0x1E3779B97F4A7C15
"""Odd numbers, as hashes take them; arithmetic wraps around in 64 bits."""


def _marks(tokens: Tensor) -> Tensor:
    """Return a number for each text, whatever its padding (-1) [batch]."""
    places = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    each = mix_bits(tokens * MULTIPLIER + places * STEP)
    return mix_bits(each.masked_fill(tokens.eq(-1), 0).sum(1))
