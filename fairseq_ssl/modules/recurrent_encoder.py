"""LSTM encoder for text classifiers and language models, with word embeddings (MEIN)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import ExactBuffers

MIN_VARIANCE = 1e-6


@dataclass(frozen=True)
class RecurrentSizes:
    """Sizes and options of a `RecurrentEncoder`."""

    vocabulary: int
    embed_dim: int = 256
    """Word embedding dimension."""
    hidden_dim: int = 1024
    """LSTM hidden dimension."""
    layers: int = 1
    dropout: float = 0.5
    """Dropout probability of embeddings and of states between layers."""
    embed_std: float = 0.06
    """Standard deviation of initial embeddings."""


class NormalizedEmbedding(ExactBuffers, nn.Embedding):
    """Embeddings with mean 0 and variance 1 over the words in the corpus (Miyato et al., 2017).

    Without normalization, the model could scale up its embeddings until an adversarial perturbation
    of fixed norm has no effect. The output is normalized, but `weight` is not. The statistics are
    computed in float32, because half precision would round the frequency of a rare word to 0.
    """

    shares: Tensor
    """[vocabulary], the relative word frequencies, which are uniform if all counts are 0."""

    def __init__(self, counts: Sequence[int], dim: int, padding: int) -> None:
        super().__init__(len(counts), dim, padding_idx=padding)
        self.padding = padding
        shares = torch.tensor(counts, dtype=torch.float).clamp(min=0)
        shares[padding] = 0
        if not shares.sum() > 0:
            shares = torch.ones_like(shares)
            shares[padding] = 0
        self.register_buffer("shares", shares / shares.sum())

    def forward(self, input: Tensor) -> Tensor:
        """Return normalized embeddings [batch, time, dim], with zeros for padding."""
        normed: Tensor = _Normalize.apply(  # type: ignore[no-untyped-call]
            self.weight.float(), self.shares, input, input.eq(self.padding).unsqueeze(-1)
        )
        return normed.type_as(self.weight)


class _Normalize(torch.autograd.Function):
    """Lookup of normalized embeddings, and its gradient.

    The gradient through the statistics affects every embedding in the vocabulary. The forward and
    backward passes together take 40% of the time of automatic differentiation, which would
    dominate an update on short texts.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, shares: Tensor, words: Tensor, is_pad: Tensor) -> Tensor:
        """Return the normalized rows `words` of `weight`, with zeros where `is_pad` is True."""
        with torch.autocast(weight.device.type, enabled=False):
            mean = shares @ weight
            variance = shares @ (weight - mean).square_()
        scale = variance.clamp(min=MIN_VARIANCE).rsqrt()
        normed = functional.embedding(words, weight).sub_(mean).mul_(scale)
        normed = normed.masked_fill_(is_pad, 0.0)
        is_constant = variance < MIN_VARIANCE
        ctx.save_for_backward(weight, shares, words, is_pad, mean, scale, is_constant, normed)
        return normed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient with respect to the embeddings."""
        weight, shares, words, is_pad, mean, scale, is_constant, normed = ctx.saved_tensors
        rows = (grad * scale).masked_fill_(is_pad, 0.0)
        variance_grad = -scale.square() * (grad * normed).sum((0, 1))  # times 2
        variance_grad.masked_fill_(is_constant, 0.0)
        # The variance does not depend on the mean, because the frequencies sum to 1.
        mean_grad = -rows.sum((0, 1)) - mean * variance_grad
        result = torch.ops.aten.embedding_dense_backward(rows, words, len(weight), -1, False)
        statistics = torch.addcmul(mean_grad, weight, variance_grad)
        return result.addcmul_(statistics, shares.unsqueeze(1)), None, None, None


class RecurrentEncoder(nn.Module):
    """Word embeddings and an LSTM: h_t = LSTM(E x_t, h_{t-1}), h_0 = 0 (Kiyono, 2022)."""

    def __init__(
        self, sizes: RecurrentSizes, padding: int, counts: Sequence[int] | None = None
    ) -> None:
        """Build the encoder.

        Args:
            sizes: sizes and options.
            padding: padding id.
            counts: word counts in the corpus, with which embeddings are normalized (default: no
                normalization).
        """
        super().__init__()
        self.sizes = sizes
        self.padding = padding
        self.embedding = (
            nn.Embedding(sizes.vocabulary, sizes.embed_dim, padding_idx=padding)
            if counts is None
            else NormalizedEmbedding(counts, sizes.embed_dim, padding)
        )
        self.lstm = nn.LSTM(
            sizes.embed_dim,
            sizes.hidden_dim,
            sizes.layers,
            batch_first=True,
            dropout=sizes.dropout if sizes.layers > 1 else 0.0,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights. Biases are 1 for the forget gate and 0 elsewhere."""
        nn.init.normal_(self.embedding.weight, std=self.sizes.embed_std)
        with torch.no_grad():
            self.embedding.weight[self.padding].zero_()
            for name, weight in self.lstm.named_parameters():
                if "weight" in name:
                    nn.init.uniform_(weight, -0.1, 0.1)
                    continue
                weight.zero_()
                if "bias_ih" in name:  # forget gate; bias_hh is 0
                    weight[self.sizes.hidden_dim : 2 * self.sizes.hidden_dim] = 1.0

    def embed(self, tokens: Tensor) -> Tensor:
        """Return word embeddings [batch, time, embed_dim], with dropout in training."""
        embedded: Tensor = self.embedding(tokens)
        return functional.dropout(embedded, self.sizes.dropout, self.training)

    def states(self, embedded: Tensor) -> Tensor:
        """Return the last LSTM layer's states [batch, time, hidden_dim] for embedded words."""
        states: Tensor = self.lstm(embedded)[0]
        return states

    def last_state(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return the state h_T [batch, hidden_dim] at the last word. Padding is on the right."""
        states = self.states(embedded)
        rows = torch.arange(len(states), device=states.device)
        return states[rows, lengths.to(states.device) - 1]


def flush_denormals() -> None:
    """Flush denormal numbers to 0 if the processor supports it.

    An LSTM's gradients become denormal near the start of a long text, which makes a CPU up to
    twenty times slower. The setting applies to the current thread and to threads that it starts
    later, so call this function before PyTorch starts its worker threads.
    """
    torch.set_flush_denormal(True)
