"""Copy attention and output mixture equal a reference implementation of PoDA, equation 3."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fairseq_ssl.modules.copying import IMPOSSIBLE, CopyAttention, Copying, SourceWords
from tests.unit.modules import plain_copying

PAD, VOCABULARY = 1, 8
SOURCE = [[900, 5, 77, 900, 5, 2], [5, 7, 5, 2], [77, 2]]
"""A repeated unknown word, two unknown words, a repeated known word (7 is the last), padding."""
TIME = 3


def padded(rows: list[list[int]]) -> Tensor:
    length = max(map(len, rows))
    return torch.tensor([[PAD] * (length - len(row)) + row for row in rows])


def example(seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, SourceWords]:
    """Return random logits, log alpha and gates, and the words of SOURCE, padded on the left."""
    torch.manual_seed(seed)
    ids = padded(SOURCE)
    scores = torch.randn(len(SOURCE), TIME, ids.size(1)).double() * scale
    attention = scores.masked_fill(ids.eq(PAD).unsqueeze(1), -math.inf).log_softmax(2)
    logits = torch.randn(len(SOURCE), TIME, VOCABULARY).double() * scale
    gate = torch.randn(len(SOURCE), TIME).double() * scale
    return logits, attention, gate, SourceWords.from_ids(ids, VOCABULARY)


def expected(logits: Tensor, attention: Tensor, gate: Tensor, words: SourceWords) -> Tensor:
    """Return p [batch, time, width] of the reference implementation."""
    ids = padded(SOURCE)
    alphas = torch.zeros_like(attention)
    for b, row in enumerate(SOURCE):
        alphas[b, :, : len(row)] = attention[b, :, ids[b].ne(PAD)].exp()
    plain = plain_copying.probabilities(logits, alphas, gate, SOURCE, VOCABULARY)
    rows = []
    for b, sentence in enumerate(plain):
        names = [*range(VOCABULARY), *words.unknown[b].tolist()]
        zero = torch.zeros((), dtype=logits.dtype)
        rows += [torch.stack([p.get(name, zero) for name in names]) for p in sentence]
    return torch.stack(rows).view(*logits.shape[:2], -1)


def test_probabilities_equal_the_reference() -> None:
    logits, attention, gate, words = example()
    found = Copying(words, attention, gate).log_probabilities(logits)
    torch.testing.assert_close(found.exp(), expected(logits, attention, gate, words))
    torch.testing.assert_close(found.exp().sum(2), torch.ones(3, TIME).double())
    # words of other sentences have no probability
    assert found[1, :, VOCABULARY:].eq(IMPOSSIBLE).all()
    assert found[0, :, VOCABULARY:].gt(-50).all()


def test_distribution_computed_by_hand() -> None:
    # the source is "x y x", both out of the vocabulary 0, ..., 3
    words = SourceWords.from_ids(torch.tensor([[91, 92, 91]]), 4)
    alpha = torch.tensor([[[0.5, 0.2, 0.3]]])
    copying = Copying(words, alpha.log(), torch.tensor([[math.log(3.0)]]))  # p_gen = 3/4
    found = copying.log_probabilities(torch.zeros(1, 1, 4)).exp()[0, 0]
    torch.testing.assert_close(found, torch.tensor([3 / 16] * 4 + [0.8 / 4, 0.2 / 4]))


def test_selected_positions_equal_all_positions() -> None:
    logits, attention, gate, words = example()
    copying = Copying(words, attention, gate)
    kept = torch.tensor([0, 4, 5, 8])
    chosen = copying.log_probabilities_at(kept, logits.flatten(0, 1)[kept])
    assert chosen.equal(copying.log_probabilities(logits).flatten(0, 1)[kept])


def test_gradients_equal_the_reference() -> None:
    logits, attention, gate, words = example()
    ids = padded(SOURCE)
    outer = torch.randn(3, TIME, words.width).double()
    outer[1:, :, VOCABULARY + 1 :] = 0  # columns of words that these sentences lack
    outer[1, :, VOCABULARY] = 0
    gradients = []
    for ours in (True, False):
        inputs = [x.clone().requires_grad_() for x in (logits, attention, gate)]
        if ours:
            found = Copying(words, inputs[1], inputs[2]).log_probabilities(inputs[0])
        else:
            found = expected(inputs[0], inputs[1], inputs[2], words).clamp(min=1e-300).log()
        to_logits, to_attention, to_gate = torch.autograd.grad((found * outer).sum(), inputs)
        to_attention = to_attention.masked_fill(ids.eq(PAD).unsqueeze(1), 0)
        gradients.append((to_logits, to_attention, to_gate))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tiny_probabilities_have_exact_logarithms_and_gradients(dtype: torch.dtype) -> None:
    """A probability of e^-200 has an exact logarithm and a gradient that increases it."""
    words = SourceWords.from_ids(torch.tensor([[91, 5, 2]]), VOCABULARY)
    logits = torch.zeros(1, 1, VOCABULARY, dtype=dtype).requires_grad_()
    attention = torch.tensor([[[-200.0, 0.0, -1.0]]]).log_softmax(2).requires_grad_()
    gate = torch.tensor([[300.0]], dtype=dtype).requires_grad_()
    found = Copying(words, attention, gate).log_probabilities(logits)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0, 0, VOCABULARY].item(), -500.313, atol=0.01, rtol=0)
    to_logits, to_attention, to_gate = torch.autograd.grad(
        found[0, 0, VOCABULARY], (logits, attention, gate)
    )
    torch.testing.assert_close(to_attention, torch.tensor([[[1.0, 0.0, 0.0]]]))
    torch.testing.assert_close(to_gate.float(), torch.tensor([[-1.0]]))
    assert to_logits.dtype == dtype
    assert to_logits.isfinite().all()


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_equals_the_reference(heads: int) -> None:
    torch.manual_seed(2)
    layer = CopyAttention(8, 6, heads).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter))
    states, encoded = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 6).double()
    padding = torch.tensor([[False] * 5, [True, True, False, False, False]])
    found, gate = layer(states, encoded, padding)
    for b, begin in enumerate([0, 2]):
        alpha = plain_copying.attention(
            *(states[b], encoded[b, begin:], layer.query.weight, layer.query.bias),
            *(layer.key.weight, heads),
        )
        torch.testing.assert_close(found[b, :, begin:].exp(), alpha)
        assert found[b, :, :begin].eq(-math.inf).all()
        pooled = alpha @ encoded[b, begin:]
        torch.testing.assert_close(gate[b], pooled @ layer.gate.weight[0] + layer.gate.bias)


@pytest.mark.parametrize("heads", [1, 2])
def test_padding_does_not_change_gradients(heads: int) -> None:
    torch.manual_seed(2)
    layer = CopyAttention(8, 6, heads)
    states, encoded = torch.randn(1, 3, 8), torch.randn(1, 5, 6)
    padding = torch.tensor([[True, True, False, False, False]])
    gradients = []
    for begin, mask in ((0, padding), (2, None)):
        attention, gate = layer(states, encoded[:, begin:], mask)
        loss = attention[:, :, 2 - begin :].square().sum() + gate.sum()
        gradients.append(torch.autograd.grad(loss, [*layer.parameters()]))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
