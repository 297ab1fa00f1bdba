"""Both implementations of imitators equal equations 3.7 and 3.8."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.modules import window_classifiers
from fairseq_ssl.modules.window_classifiers import Imitators, RandomImitators

PAD, VOCABULARY, CLASSES = 1, 30, 3
TOKENS = torch.tensor([[4, 5, 6, 4, 4, 7, 8], [9, 4, 5, PAD, PAD, PAD, PAD], [8] + 6 * [PAD]])


def made(*windows: int) -> Imitators:
    torch.manual_seed(3)
    return Imitators(VOCABULARY, CLASSES, windows, PAD, 5, 6).double()


def plain(model: Imitators, number: int, text: list[int]) -> Tensor:
    """Compute p_ij of one text, one window at a time [windows, classes]."""
    window, convolution = model.windows[number], model.convolutions[number]
    assert isinstance(convolution, torch.nn.Conv1d)
    assert convolution.bias is not None
    table = model.get_parameter("embeddings.0.weight")
    zero = torch.zeros_like(table[0])
    rows = []
    for place in range(len(text)):
        hidden = convolution.bias
        for offset in range(-window, window + 1):
            inside = 0 <= place + offset < len(text)
            embedded = table[text[place + offset]] if inside else zero
            hidden = hidden + convolution.weight[:, :, offset + window] @ embedded
        hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
        rows.append(model.outputs[number](hidden).softmax(-1))
    return torch.stack(rows)


@pytest.mark.parametrize("max_ratio", [0, 2])
def test_windows_equal_the_reference(max_ratio: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows at the ends of a text contain zeros, whether or not a batch has padding."""
    monkeypatch.setattr(window_classifiers, "MAX_TYPE_TOKEN_RATIO", max_ratio)
    model = made(1, 3)
    for tokens in (TOKENS, TOKENS[:1], TOKENS[1:, :3]):
        found = model(tokens)
        texts = [[int(one) for one in row if one != PAD] for row in tokens]
        assert found.counts.tolist() == list(map(len, texts))
        assert found.texts.tolist() == [number for number, text in enumerate(texts) for _ in text]
        for number, logits in enumerate(found.logits):
            expected = torch.cat([plain(model, number, text) for text in texts])
            torch.testing.assert_close(logits.softmax(-1), expected)


def test_alpha_is_the_log_of_the_mean_probability() -> None:
    model = made(1, 2)
    alphas = model.alphas(TOKENS)
    assert alphas.shape == (2, 3, CLASSES)
    for number in range(2):
        expected = plain(model, number, [9, 4, 5]).mean(0).log()
        torch.testing.assert_close(alphas[number, 1].double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(alphas.exp().sum(-1), torch.ones(2, 3))


def test_both_implementations_have_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for max_ratio in (0, 2):
        monkeypatch.setattr(window_classifiers, "MAX_TYPE_TOKEN_RATIO", max_ratio)
        model = made(1, 2, 4)
        loss = sum(functional.log_softmax(one, -1)[:, 0].sum() for one in model(TOKENS).logits)
        assert isinstance(loss, Tensor)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients.append({name: one.grad for name, one in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert gradient is not None
        assert gradient.abs().sum() > 0, name
        torch.testing.assert_close(gradient, gradients[1][name])


def test_random_vectors_depend_on_the_text_only() -> None:
    model = RandomImitators(CLASSES, 4, PAD)
    found = model.alphas(TOKENS)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(4, 3))
    assert torch.equal(found[:, 1:2], model.alphas(TOKENS[1:2, :3]))
    other = model.alphas(torch.tensor([[9, 5, 4]]))
    assert (found[:, 1:2] - other).abs().min() > 1e-4
    assert not torch.equal(found, RandomImitators(CLASSES, 4, PAD, seed=2).alphas(TOKENS))


def test_random_vectors_are_standard_normal() -> None:
    """The difference of two standard normal numbers has variance 2."""
    texts = torch.arange(4, 8004).view(-1, 2)
    alphas = RandomImitators(2, 3, PAD).alphas(texts)
    differences = alphas[..., 0] - alphas[..., 1]
    assert differences.mean().abs() < 0.06
    assert 1.9 < differences.var() < 2.1
    assert torch.corrcoef(differences).fill_diagonal_(0).abs().max() < 0.06
