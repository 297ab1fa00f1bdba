"""Copy attention and output mixture equal a reference implementation of PoDA, equation 3."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_ssl.modules.copying import IMPOSSIBLE, CopyAttention, Copying, SourceWords

PAD, VOCABULARY = 1, 8
SOURCE = [[900, 5, 77, 900, 5, 2], [5, 7, 5, 2], [77, 2]]
"""A repeated unknown word, two unknown words, a repeated known word (7 is the last), padding."""
TIME = 3


def plain_probabilities(
    logits: Tensor, alpha: Tensor, gate: Tensor, source: list[list[int]], vocabulary: int
) -> list[list[dict[int, Tensor]]]:
    """Return p(w) by sentence, position and word id, as in PoDA, equation 3.

    The gate is the logit of p_gen. `alpha` [batch, time, source time] sums to 1 over the words of
    each source.
    """
    result = []
    for b, words in enumerate(source):
        sentence = []
        for t in range(logits.size(1)):
            generate = torch.sigmoid(gate[b, t])
            softmax = torch.softmax(logits[b, t], 0)
            p = {w: generate * softmax[w] for w in range(vocabulary)}
            for i, w in enumerate(words):
                p[w] = p.get(w, torch.zeros((), dtype=p[0].dtype))
                p[w] = p[w] + (1 - generate) * alpha[b, t, i]
            sentence.append(p)
        result.append(sentence)
    return result


def plain_attention(
    states: Tensor, encoded: Tensor, query: Tensor, bias: Tensor, key: Tensor, heads: int
) -> Tensor:
    """Return alpha [time, source time] of one sentence, averaged over the heads.

    `query` and `key` are the weights of the projections of states [time, dim] and encoded words.
    """
    size = len(query) // heads
    total = torch.zeros(len(states), len(encoded), dtype=states.dtype)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for t, state in enumerate(states):
            asks = (query @ state + bias)[part]
            scores = torch.stack([asks @ (key @ there)[part] for there in encoded])
            total[t] += torch.softmax(scores / math.sqrt(size), 0) / heads
    return total


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
    plain = plain_probabilities(logits, alphas, gate, SOURCE, VOCABULARY)
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
    torch.testing.assert_close(layer(states[:1], encoded[:1]), (found[:1], gate[:1]))
    for b, begin in enumerate([0, 2]):
        alpha = plain_attention(
            *(states[b], encoded[b, begin:], layer.query.weight, layer.query.bias),
            *(layer.key.weight, heads),
        )
        torch.testing.assert_close(found[b, :, begin:].exp(), alpha)
        assert found[b, :, :begin].eq(-math.inf).all()
        pooled = alpha @ encoded[b, begin:]
        torch.testing.assert_close(gate[b], pooled @ layer.gate.weight[0] + layer.gate.bias)


def words(*sentences: list[int]) -> SourceWords:
    return SourceWords.from_ids(torch.tensor(sentences), 10)


def test_local_ids_follow_the_order_of_unknown_words() -> None:
    made = words([900, 5, 77, 900, 2], [5, 77, 6, 7, 2], [5, 6, 7, 8, 2])
    assert made.tokens.tolist() == [[10, 5, 11, 10, 2], [5, 10, 6, 7, 2], [5, 6, 7, 8, 2]]
    assert made.first.tolist() == [[0, 1, 2, 0, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert made.unknown.tolist() == [[900, 77], [77, -1], [-1, -1]]
    assert made.width == 12


def test_targets_get_the_local_ids_of_their_source() -> None:
    made = words([900, 5, 77, 2], [5, 77, 6, 2])
    target = torch.tensor([[77, 900, 55, 5], [77, 900, 55, 5]])
    assert made.to_local(target, 3).tolist() == [[11, 10, 3, 5], [10, 3, 3, 5]]


ROWS = st.integers(1, 5).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(4, 16), min_size=length, max_size=length), min_size=1, max_size=4
    )
)


@given(ROWS)
def test_from_local_inverts_to_local(sentences: list[list[int]]) -> None:
    made = words(*sentences)
    assert words(*made.tokens.tolist()).tokens.equal(made.tokens)
    for row, sentence in enumerate(sentences):
        assert made.from_local(made.tokens[row], row).tolist() == sentence
        assert made.to_local(torch.tensor(sentences), 3)[row].equal(made.tokens[row])
        for place, word in enumerate(sentence):
            assert made.first[row, place] == sentence.index(word)
