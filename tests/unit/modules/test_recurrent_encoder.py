"""LSTM encoder: normalized embeddings, the last state, and perturbations."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_ssl.criterions.classification_cross_entropy import scale_to_norm
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.recurrent_models import (
    LstmClassifier,
    LstmClassifierConfig,
    RecurrentConfig,
    RecurrentLanguageModel,
)
from fairseq_ssl.modules.recurrent_encoder import (
    MIN_VARIANCE,
    NormalizedEmbedding,
    RecurrentEncoder,
    RecurrentSizes,
)

PAD = 1
COUNTS = [1, 1, 1, 1, 40, 7, 2, 9]


def encoder(**options: object) -> RecurrentEncoder:
    torch.manual_seed(1)
    sizes = RecurrentSizes(8, 4, 5, **{"dropout": 0.0, **options})  # type: ignore[arg-type]
    return RecurrentEncoder(sizes, PAD)


def test_last_state_does_not_depend_on_padding() -> None:
    model = encoder()
    tokens = torch.tensor([[4, 5, 6, 2], [7, 2, PAD, PAD]])
    found = model.last_state(model.embed(tokens), torch.tensor([4, 2]))
    for row, length in enumerate((4, 2)):
        alone = model.embed(tokens[row : row + 1, :length])
        torch.testing.assert_close(found[row], model.lstm(alone)[1][0][-1, 0])


def test_normalized_embeddings_have_mean_0_and_variance_1() -> None:
    torch.manual_seed(1)
    embedding = NormalizedEmbedding(COUNTS, 6, PAD)
    words = [word for word, count in enumerate(COUNTS) if word != PAD for _ in range(count)]
    found = embedding(torch.tensor([words]))[0]
    torch.testing.assert_close(found.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.var(0, unbiased=False), torch.ones(6))
    assert not embedding(torch.tensor([[PAD]])).any()
    embedding.weight.data *= 10
    torch.testing.assert_close(embedding(torch.tensor([words]))[0], found)


@pytest.mark.parametrize("counts", [None, [1] * 2_000])
def test_standard_deviation_of_initial_embeddings(counts: list[int] | None) -> None:
    torch.manual_seed(1)
    sizes = RecurrentSizes(2_000, 8, 4, embed_std=0.3)
    weight = RecurrentEncoder(sizes, PAD, counts).embedding.weight
    rows = [word for word in range(2_000) if word != PAD]
    assert weight[rows].std().item() == pytest.approx(0.3, rel=0.03)
    assert not weight[PAD].any()


def test_gradient_of_normalized_embeddings() -> None:
    """Equal to automatic differentiation of the formula, also for a dimension without variance."""
    torch.manual_seed(1)
    embedding = NormalizedEmbedding(COUNTS, 3, PAD)
    embedding.weight.data[:, 2] = 0.5
    tokens = torch.tensor([[4, 6, 4], [7, PAD, PAD]])
    factors = torch.randn(2, 3, 3)
    (embedding(tokens) * factors).sum().backward()
    found = embedding.weight.grad

    weight = embedding.weight.detach().double().requires_grad_()
    words = torch.tensor([word for word, n in enumerate(COUNTS) if word != PAD for _ in range(n)])
    variance = weight[words].var(0, unbiased=False).clamp(min=MIN_VARIANCE)
    normed = (weight - weight[words].mean(0)) / variance.sqrt()
    normed = torch.stack([normed[word] for word in tokens.flatten().tolist()]).view(2, 3, 3)
    (normed * factors * tokens.ne(PAD).unsqueeze(-1)).sum().backward()  # type: ignore[no-untyped-call]
    assert found is not None
    assert weight.grad is not None
    torch.testing.assert_close(found, weight.grad.float(), atol=1e-4, rtol=1e-4)
    assert found[2:4].any(), "the statistics depend on words that are not in the batch"


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_normalized_embeddings_in_half_precision(kind: torch.dtype) -> None:
    """They are exact even for relative frequencies below the smallest half-precision number."""
    torch.manual_seed(1)
    embedding = NormalizedEmbedding([1, 1, 1, 1, *(5 * [10**8]), *(500 * [1])], 6, PAD)
    embedding.weight.data[9:] += 1e4
    embedding.weight.data = embedding.weight.data.to(kind).float()
    tokens = torch.arange(len(embedding.weight)).unsqueeze(0)
    expected = embedding(tokens).to(kind)
    found = embedding.to(kind)(tokens)
    assert found.dtype == kind
    assert torch.equal(found, expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(embedding(tokens), expected)


def test_each_word_has_its_own_dropout_mask() -> None:
    model = encoder(dropout=0.5).train()
    gone = model.embed(torch.full((3, 50), 4)).eq(0)
    assert gone.any()
    assert not (gone == gone[:, :1]).all()
    assert not model.eval().embed(torch.full((3, 50), 4)).eq(0).any()


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e10])
def test_perturbation_has_the_given_norm_for_any_gradient(scale: float) -> None:
    torch.manual_seed(1)
    gradient = scale * torch.randn(2, 3, 4)
    is_word = torch.tensor([[True, True, False], [True, True, True]])
    found = scale_to_norm(gradient, 5.0, is_word)
    assert not found[0, 2].any()
    torch.testing.assert_close(found.flatten(1).norm(dim=1), torch.full((2,), 5.0))
    assert torch.equal(found[1].sign(), gradient[1].sign())
    assert not scale_to_norm(torch.zeros(1, 2, 3), 5.0, is_word[:1, :2]).any()


@pytest.mark.parametrize("normalized", [True, False])
def test_a_classifier_and_its_language_model_agree_on_normalization(
    tmp_path: Path, normalized: bool
) -> None:
    words = Dictionary()
    for number in range(30):
        words.add_symbol(f"w{number}", n=5)
    words.save(str(tmp_path / "dict.txt"))
    language_cfg, cfg = RecurrentConfig(), LstmClassifierConfig()
    for one in (language_cfg, cfg):
        one.recurrent_embed_dim = one.recurrent_hidden_dim = 8
        one.recurrent_normalize_embeddings = normalized
    task = SimpleNamespace(source_dictionary=words, classes=["a", "b"])
    language_model = RecurrentLanguageModel.build_model(language_cfg, task)
    cfg.classifier_lm, cfg.classifier_lm_dict = f"{tmp_path}/lm.pt", f"{tmp_path}/dict.txt"
    stored = {"model": {**vars(language_cfg), "_name": "recurrent_lm"}}
    state = {"model": language_model.state_dict(), "cfg": stored, "args": None}
    torch.save(state, cfg.classifier_lm)
    classifier = LstmClassifier.build_model(cfg, task).eval()
    tokens = torch.tensor([[5, 6, 7, 2]])
    expected = language_model.eval().decoder.encoder.embed(tokens)
    torch.testing.assert_close(classifier.encoder.embed(tokens), expected)
    cfg.recurrent_normalize_embeddings = not normalized
    with pytest.raises(ConfigurationError, match="normalize-embeddings"):
        LstmClassifier.build_model(cfg, task)
