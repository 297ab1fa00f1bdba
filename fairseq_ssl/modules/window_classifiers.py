"""Imitators: convolutions that predict an expert's labels from subwords (MEIN; Kiyono, 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import logical_right_shift, mix_bits

NEGATIVE_SLOPE = 0.01
"""Negative slope of the leaky ReLU."""
MAX_TYPE_TOKEN_RATIO = 0.5
"""Ratio of distinct subwords to tokens below which each distinct subword is projected once."""


class WindowLogits(NamedTuple):
    """Logits for the windows of all texts in a batch, concatenated."""

    logits: list[Tensor]
    """One tensor [windows, classes] for each imitator."""
    texts: Tensor
    """[windows], the index of each window's text in the batch."""
    counts: Tensor
    """[batch], the number of windows J in each text."""


class Imitators(nn.Module):
    """Imitators of an expert. Imitator i convolves subwords j - c_i to j + c_i (equation 3.8)."""

    def __init__(
        self,
        vocabulary: int,
        classes: int,
        windows: Sequence[int],
        padding: int,
        dim: int = 512,
        channels: int = 512,
        sparse_gradients: bool = False,
    ) -> None:
        """Build the imitators.

        Args:
            vocabulary: subword vocabulary size.
            classes: number of classes (|Y|).
            windows: window size c_i of each imitator, which reads 2 c_i + 1 subwords.
            padding: padding id.
            dim: embedding dimension.
            channels: number of convolution channels (N).
            sparse_gradients: whether gradients of embeddings are sparse tensors.
        """
        super().__init__()
        self.windows = tuple(windows)
        self.padding = padding
        shared = nn.Embedding(vocabulary, dim, padding_idx=padding, sparse=sparse_gradients)
        self.embeddings = nn.ModuleList([shared])  # the name in checkpoints is embeddings.0
        self.convolutions = nn.ModuleList(
            nn.Conv1d(dim, channels, 2 * window + 1, padding=window) for window in self.windows
        )
        self.outputs = nn.ModuleList(nn.Linear(channels, classes) for _ in self.windows)

    def forward(self, tokens: Tensor) -> WindowLogits:
        """Return the logits for all windows of texts [batch, time], padded on the right."""
        is_real = tokens.ne(self.padding)
        types, inverse = torch.unique(tokens, return_inverse=True)
        by_types = len(types) < MAX_TYPE_TOKEN_RATIO * tokens.numel()
        logits = []
        embedding = self.embeddings[0]
        for index, window in enumerate(self.windows):
            convolution = self.convolutions[index]
            if by_types:
                hidden = _convolve_by_types(embedding, convolution, window, types, inverse, is_real)
            else:
                embedded = embedding(tokens).transpose(1, 2)
                hidden = convolution(embedded).transpose(1, 2)[is_real]
            logits.append(self.outputs[index](functional.leaky_relu(hidden, NEGATIVE_SLOPE)))
        return WindowLogits(logits, is_real.nonzero()[:, 0], is_real.sum(1))

    def alphas(self, tokens: Tensor) -> Tensor:
        """Return each imitator's log-probabilities [imitators, batch, classes] (equation 3.7)."""
        windows = self(tokens)
        return torch.stack([average_windows(logits, windows) for logits in windows.logits])


def _convolve_by_types(
    embedding: nn.Module,
    convolution: nn.Module,
    window: int,
    types: Tensor,
    inverse: Tensor,
    is_real: Tensor,
) -> Tensor:
    """Return the convolution [windows, channels] at positions that are not padding.

    In o_j = b + sum_k W_k e(x_{j+k}), the products W_k e are computed once for each distinct
    subword and then looked up. Positions outside of the batch use an extra row of zeros.

    Args:
        embedding: the subword embeddings.
        convolution: a convolution from the embedding dimension to channels.
        window: c, where k ranges from -c to c.
        types: the distinct ids in the batch.
        inverse: [batch, time], the index of each token in `types`.
        is_real: [batch, time], True for tokens that are not padding.
    """
    assert isinstance(convolution, nn.Conv1d)
    assert convolution.bias is not None
    size = 2 * window + 1
    table = functional.pad(embedding(types), (0, 0, 0, 1))
    weight = convolution.weight.permute(2, 0, 1).flatten(0, 1)
    projected = functional.linear(table, weight).view(-1, convolution.out_channels)
    padded = functional.pad(inverse, (window, window), value=len(types))
    context = padded.unfold(1, size, 1)[is_real] * size
    rows = context + torch.arange(size, device=context.device)
    hidden: Tensor = functional.embedding_bag(rows, projected, mode="sum")
    return hidden + convolution.bias


def average_windows(logits: Tensor, windows: WindowLogits) -> Tensor:
    """Return the log of each text's mean window probabilities [batch, classes] (equation 3.7).

    Args:
        logits: [windows, classes], the logits of one imitator.
        windows: the output of `Imitators` that contains these logits.
    """
    probabilities = logits.float().softmax(-1)
    total = probabilities.new_zeros(len(windows.counts), logits.size(-1))
    total = total.index_add(0, windows.texts, probabilities)
    mean = total / windows.counts.unsqueeze(1).clamp(min=1)
    return mean.clamp(min=torch.finfo(torch.float32).tiny).log()


class RandomImitators(nn.Module):
    """Random vectors that replace imitators, for the control experiment (Kiyono, 2022, table 3.3).

    The vectors are log-softmax values of standard normal logits, computed from a hash of the text.
    """

    def __init__(self, classes: int, count: int, padding: int, seed: int = 1) -> None:
        super().__init__()
        self.classes = classes
        self.windows = tuple(range(1, count + 1))
        self.padding = padding
        self.seed = seed

    def alphas(self, tokens: Tensor) -> Tensor:
        """Return random log-probabilities [imitators, batch, classes], seeded with text hashes."""
        size = len(self.windows) * self.classes
        hashes = _hash_texts(tokens.masked_fill(tokens.eq(self.padding), -1))
        hashes = hashes ^ (self.seed * MULTIPLIER)
        steps = torch.arange(1, 2 * size + 1, device=tokens.device) * STEP
        bits = mix_bits(hashes.unsqueeze(1) + steps)
        uniform = logical_right_shift(bits, 11).double().add(0.5) / float(1 << 53)
        radius, angle = uniform.chunk(2, dim=1)
        normal = (-2 * radius.log()).sqrt() * (2 * math.pi * angle).cos()
        shaped = normal.view(len(tokens), len(self.windows), self.classes).transpose(0, 1)
        return shaped.float().log_softmax(-1)


MULTIPLIER, STEP = 0x5851F42D4C957F2D, 0x1E3779B97F4A7C15
"""Odd integers for hashing, whose 64-bit arithmetic wraps around."""


def _hash_texts(tokens: Tensor) -> Tensor:
    """Return a hash of each text [batch]. Padding, which is -1, does not affect the hash."""
    positions = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    hashes = mix_bits(tokens * MULTIPLIER + positions * STEP)
    return mix_bits(hashes.masked_fill(tokens.eq(-1), 0).sum(1))
