"""The pointer Transformer in batches and step by step."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from tests.conftest import trained_only
from tests.unit.models.tiny_models import EOS, PAD, UNK, batch, build, dictionary, previous

WORDS, VOCABULARY = 20, 12
SENTENCES = [[4, 15, 6, 15, 17, 400], [7, 18, 8], [], [16, 5, 4, 7, 8]]
TARGETS = [[4, 15, 400, 6], [8, 7, 17, 18], [5], [16, 17, 4, 5, 6, 7, 8]]


def tiny(seed: int = 3, **options: Any) -> Any:
    options = {"copy_vocabulary": VOCABULARY, "dropout": 0.3, **options}
    model = build("pointer_transformer_tiny", seed=seed, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def sample(sentences: list[list[int]], targets: list[list[int]], left: bool) -> dict[str, Any]:
    source, target = batch(sentences, left), batch(targets)
    return {
        "net_input": {
            "src_tokens": source,
            "src_lengths": source.ne(PAD).sum(1),
            "prev_output_tokens": previous(targets),
        },
        "target": target,
        "ntokens": int(target.ne(PAD).sum()),
    }


def log_probabilities(model: Any, data: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Return log p of each target word, and the targets as column indices [batch, time]."""
    with torch.no_grad():
        output = model(**data["net_input"])
        target = model.get_targets(data, output)
        lprobs = model.get_normalized_probs(output, log_probs=True)
    return lprobs.gather(2, target.unsqueeze(2)).squeeze(2), target


@pytest.mark.parametrize(("left", "heads"), [(True, 1), (False, 2)])
def test_probabilities_do_not_depend_on_the_batch(left: bool, heads: int) -> None:
    model = tiny(copy_attention_heads=heads)
    together, _ = log_probabilities(model, sample(SENTENCES, TARGETS, left))
    for row, (source, target) in enumerate(zip(SENTENCES, TARGETS, strict=True)):
        alone, _ = log_probabilities(model, sample([source], [target], left))
        torch.testing.assert_close(together[row, : alone.size(1)], alone[0])


def test_out_of_vocabulary_targets_need_a_source_word() -> None:
    _, target = log_probabilities(tiny(), sample(SENTENCES, TARGETS, True))
    assert target[0].tolist() == [4, 12, 14, 6, EOS, PAD, PAD, PAD]
    assert target[1, :5].tolist() == [8, 7, UNK, 12, EOS]
    assert target[3].tolist() == [12, UNK, 4, 5, 6, 7, 8, EOS]


def test_out_of_vocabulary_words_are_embedded_as_unk() -> None:
    model = tiny()
    one, _ = log_probabilities(model, sample([[4, 15, 6]], [[4, 15]], True))
    other, _ = log_probabilities(model, sample([[4, 400, 6]], [[4, 400]], True))
    assert one.equal(other)
    unk = model(**sample([[4, UNK, 6]], [[4, UNK]], True)["net_input"])[0]
    known = model(**sample([[4, 15, 6]], [[4, 15]], True)["net_input"])[0]
    assert unk.equal(known)


def test_all_weights_get_gradients() -> None:
    """Also with several heads and padding, where all heads are minus infinity."""
    model = tiny(copy_attention_heads=2).train()
    data = sample(SENTENCES, TARGETS, True)
    output = model(**data["net_input"])
    lprobs = model.get_normalized_probs(output, log_probs=True)
    target = model.get_targets(data, output)
    lprobs.gather(2, target.unsqueeze(2)).squeeze(2)[target.ne(PAD)].sum().backward()
    for name, weight in trained_only(dict(model.named_parameters())).items():
        assert weight.grad is not None, name
        assert 0 < weight.grad.abs().sum() < math.inf, name


def test_bfloat16_probabilities_are_close() -> None:
    model = tiny(copy_attention_heads=2)
    data = sample(SENTENCES, TARGETS, True)
    exact, _ = log_probabilities(model, data)
    rough, _ = log_probabilities(model.to(torch.bfloat16), data)
    assert rough.dtype == torch.float32
    counts = data["target"].ne(PAD)
    torch.testing.assert_close(rough[counts].double(), exact[counts], atol=0.3, rtol=0.05)


def test_sizes_and_dropout_of_the_paper() -> None:
    """97 million parameters in PoDA, section 3.1. The authors' code has more linear layers."""
    with torch.device("meta"):
        model = build("pointer_transformer", dictionary(50_000))
    trained = trained_only(dict(model.named_parameters()))
    assert 95e6 < sum(parameter.numel() for parameter in trained.values()) < 98e6
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert (layer.dropout_module.p, layer.activation_dropout_module.p) == (0.2, 0.2)
        assert layer.self_attn.dropout_module.p == 0.2


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"copy_vocabulary": 21}, "--copy-vocabulary"),
        ({"copy_attention_heads": 3}, "--copy-attention-heads"),
        ({"decoder_output_dim": 32}, "--decoder-output-dim"),
        ({"adaptive_softmax_cutoff": "5"}, "--adaptive-softmax-cutoff"),
        ({"no_cross_attention": True}, "--no-cross-attention"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        build("pointer_transformer_tiny", **options)


def test_separate_dictionaries_are_rejected() -> None:
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary(21))
    with pytest.raises(ConfigurationError, match="--joined-dictionary"):
        ARCH_MODEL_REGISTRY["pointer_transformer_tiny"].build_model(SimpleNamespace(), task)
