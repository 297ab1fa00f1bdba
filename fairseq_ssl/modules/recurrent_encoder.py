"""Word embeddings and an LSTM over them, of classifiers and of their language models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.functional import ExactBuffers

LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class RecurrentSizes:
    """What decides the shape of an encoder and how it computes."""

    vocabulary: int
    embed_dim: int = 256
    """D of the thesis."""
    hidden_dim: int = 1024
    """H."""
    layers: int = 1
    dropout: float = 0.5
    """Of embeddings, and of the states between layers."""
    same_for_all_words: bool = False
    """Whether dropout leaves out the same dimensions of every word of a text."""


class NormalizedEmbedding(ExactBuffers, nn.Embedding):
    """Embeddings of mean 0 and variance 1 over the words of the corpus (Miyato et al., 2017).

    Their length is fixed by that, and so a disturbance of a given length has a meaning that a
    training can not evade by making the embeddings longer. The weight itself is not normalized.
    All is computed in float32, whatever the weight's type: the share of a rare word is 0 in half
    precision.
    """

    shares: Tensor

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
        """Look up ids [batch, time] and normalize; the padding stays 0."""
        weight = self.weight.float()
        with torch.autocast(weight.device.type, enabled=False):
            mean = self.shares @ weight
            variance = (self.shares @ (weight - mean).square()).clamp(min=LEAST_VARIANCE)
        found = (functional.embedding(input, weight) - mean) * variance.rsqrt()
        normed: Tensor = found.masked_fill(input.eq(self.padding).unsqueeze(-1), 0.0)
        return normed.type_as(self.weight)


class RecurrentEncoder(nn.Module):
    """h_t = LSTM(E x_t, h_{t-1}), h_0 = 0 (thesis, section 3.4)."""

    def __init__(
        self, sizes: RecurrentSizes, padding: int, counts: Sequence[int] | None = None
    ) -> None:
        """Make one; with the `counts` of the words in the corpus its embeddings are normalized."""
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
        self._initialize()

    def _initialize(self) -> None:
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        with torch.no_grad():
            self.embedding.weight[self.padding].zero_()
            for name, weight in self.lstm.named_parameters():
                if "weight" in name:
                    nn.init.uniform_(weight, -0.1, 0.1)
                    continue
                weight.zero_()
                if "bias_ih" in name:  # the gate that forgets begins open; bias_hh stays 0
                    weight[self.sizes.hidden_dim : 2 * self.sizes.hidden_dim] = 1.0

    def embed(self, tokens: Tensor) -> Tensor:
        """Return embeddings with dropout [batch, time, embed_dim] of ids [batch, time]."""
        found: Tensor = self.embedding(tokens)
        if not self.training or self.sizes.dropout == 0:
            return found
        if self.sizes.same_for_all_words:
            mask = functional.dropout(torch.ones_like(found[:, :1]), self.sizes.dropout)
            return found * mask
        return functional.dropout(found, self.sizes.dropout)

    def states(self, embedded: Tensor) -> Tensor:
        """Return the last layer's state at each place [batch, time, hidden_dim]."""
        found: Tensor = self.lstm(embedded)[0]
        return found

    def last(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return h_T [batch, hidden_dim] of texts padded on the right."""
        states = self.states(embedded)
        rows = torch.arange(len(states), device=states.device)
        return states[rows, lengths.to(states.device) - 1]


def flush_denormals(wanted: bool = True) -> None:
    """Let this process take the smallest numbers for 0, where the processor can; or not.

    The gradient of a text's first words fades into such numbers in an LSTM, and a CPU computes
    with them up to twenty times slower than with others. The setting is that of a thread, which
    those that it starts later take over: it has to be made before torch shares out its first large
    piece of work, and leaves threads as they are that were there before.
    """
    torch.set_flush_denormal(wanted)
