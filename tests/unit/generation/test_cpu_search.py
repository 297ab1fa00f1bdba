"""Beam search on a CPU: the hypotheses, scores and attention of fairseq."""

from __future__ import annotations

import copy
from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.search import DiverseBeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.generation import cpu_search, decoder_step
from fairseq_ssl.generation.cpu_search import assign_rows, in_fixed_rows, top_words
from fairseq_ssl.generation.noisy_beam import BeamNoise, NoisyGenerator

fairseq_ssl.register()

PAD, EOS = 1, 2
WORDS = 150


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the vocabulary into blocks, and blocks into groups."""
    monkeypatch.setattr(decoder_step, "BLOCK", 48)
    monkeypatch.setattr(cpu_search, "GROUP", 2)


def dictionary() -> Dictionary:
    """Return a dictionary of `WORDS` entries."""
    words = Dictionary()
    for i in range(WORDS - len(words)):
        words.add_symbol(f"w{i}")
    return words


def options(**changes: Any) -> Namespace:
    """Return the options of a small Transformer."""
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in {"embed_dim": 32, "ffn_embed_dim": 48, "attention_heads": 4}.items()
    }
    sizes = {**sizes, "encoder_layers": 2, "decoder_layers": 2}
    limits = {"max_source_positions": 64, "max_target_positions": 64}
    args = Namespace(arch="transformer_tiny", **{**sizes, **limits, **changes})
    ARCH_CONFIG_REGISTRY["transformer_tiny"](args)
    return args


def transformer(
    seed: int = 1, prepared: bool = True, has_bias: bool = True, end: float = 2.5, **changes: Any
) -> Any:
    """Return a Transformer with random weights, whose hypotheses have different lengths."""
    torch.manual_seed(seed)
    words = dictionary()
    task = Namespace(source_dictionary=words, target_dictionary=words)
    model = TransformerModel.build_model(options(**changes), task).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    if has_bias:
        bias = torch.zeros(WORDS)
        bias[EOS] = end
        model.decoder.output_projection.bias = torch.nn.Parameter(bias)
    if prepared:
        prepare(model)
    return model


def prepare(model: Any) -> None:
    """Prepare a model as fairseq-generate does."""
    model.prepare_for_inference_(Namespace(generation=Namespace(print_alignment=None)))


def batch(seed: int = 3, count: int = 6) -> dict[str, Any]:
    """Return left-padded sources of different lengths."""
    torch.manual_seed(seed)
    sources = torch.randint(4, WORDS, (count, 9))
    sources[:, -1] = EOS
    for row, padding in enumerate([0, 3, 1, 5, 0, 2][:count]):
        sources[row, :padding] = PAD
    lengths = sources.ne(PAD).sum(1)
    return {"id": torch.arange(count), "net_input": {"src_tokens": sources, "src_lengths": lengths}}


def assert_equal(generator: Any, sample: Any = None, fast: bool = True, **more: Any) -> Any:
    """Compare the hypotheses with those of fairseq, and return them."""
    sample = batch() if sample is None else sample
    with torch.no_grad():
        assert (in_fixed_rows(generator, more) is not generator) == fast
    stock = SequenceGenerator.generate.__wrapped__
    torch.manual_seed(7)
    expected = stock(generator, [], sample, **more)
    torch.manual_seed(7)
    found = generator.generate([], sample, **more)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [each["tokens"].tolist() for each in ours] == [
            each["tokens"].tolist() for each in theirs
        ]
        for one, other in zip(ours, theirs, strict=True):
            for name in ("score", "positional_scores", "attention"):
                torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-5)
    return found


def generator(*models: Any, **changes: Any) -> SequenceGenerator:
    """Return fairseq's generator with beam 5."""
    return SequenceGenerator(models, dictionary(), **{"beam_size": 5, "max_len_b": 20, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
        {"share_decoder_input_output_embed": True, "decoder_learned_pos": True},
        {"activation_fn": "gelu", "layernorm_embedding": True, "decoder_output_dim": 16},
        {"no_token_positional_embeddings": True, "decoder_input_dim": 16},
        {"no_cross_attention": True},
    ],
)
def test_transformers_have_the_hypotheses_of_fairseq(changes: dict[str, Any]) -> None:
    assert_equal(generator(transformer(**changes)))


@pytest.mark.parametrize("seed", [1, 2])
def test_sentences_are_finished_at_different_steps(seed: int) -> None:
    steps = []
    for end in (2.0, 2.5, 3.0):  # versions of fairseq draw other weights, which need another bias
        found = assert_equal(generator(transformer(seed, end=end)))
        steps.append({max(len(each["tokens"]) for each in sentence) for sentence in found})
    assert max(map(len, steps)) > 2


@pytest.mark.parametrize(
    "changes",
    [
        {"beam_size": 1},
        {"beam_size": 12, "max_len_b": 3},
        {"len_penalty": 0.3, "unk_penalty": -5.0},
        {"normalize_scores": False, "temperature": 1.7},
        {"min_len": 8, "max_len_a": 1.2, "max_len_b": 0},
        {"min_len": 5, "max_len": 6},
        {"match_source_len": True},
        {"no_repeat_ngram_size": 1},
        {"tokens_to_suppress": ("w5", "w9")},
        {"eos": 30},
    ],
)
def test_options_of_the_search(changes: dict[str, Any]) -> None:
    assert_equal(generator(transformer(), **changes))


def test_output_layers_without_bias() -> None:
    assert_equal(generator(transformer(has_bias=False)))


def test_ensembles() -> None:
    assert_equal(generator(transformer(), transformer(2, encoder_layers=1), transformer(3)))


def test_prefix_tokens_of_different_lengths() -> None:
    prefix = torch.randint(4, WORDS, (6, 3))
    prefix[1, 1:] = PAD
    prefix[4, 2] = EOS
    assert_equal(generator(transformer()), prefix_tokens=prefix)
    assert_equal(generator(transformer()), bos_token=9)


def test_other_searches() -> None:
    words = dictionary()
    model = transformer()
    assert_equal(generator(model, search_strategy=Sampling(words)))
    assert_equal(generator(model, search_strategy=Sampling(words, sampling_topk=3)))
    assert_equal(generator(model, search_strategy=Sampling(words, sampling_topp=0.8)))
    diverse = DiverseBeamSearch(words, num_groups=2, diversity_strength=0.5)
    assert_equal(generator(model, beam_size=4, search_strategy=diverse))


def test_noisy_beam_search(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = BeamNoise(6.0)
    noisy = NoisyGenerator([transformer()], dictionary(), noise, beam_size=5, max_len_b=20)
    with torch.no_grad():
        assert in_fixed_rows(noisy, {}) is not noisy
    found = noisy.generate([], batch())
    monkeypatch.setattr(SequenceGenerator, "generate", SequenceGenerator.generate.__wrapped__)
    for ours, theirs in zip(found, noisy.generate([], batch()), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one["tokens"].equal(other["tokens"])
            torch.testing.assert_close(one["score"], other["score"], rtol=1e-4, atol=1e-5)


def language_model() -> Any:
    """Return a Transformer language model."""
    words = dictionary()
    task = Namespace(source_dictionary=words, target_dictionary=words, output_dictionary=words)
    sizes = {"decoder_embed_dim": 32, "decoder_ffn_embed_dim": 48, "decoder_attention_heads": 4}
    args = TransformerLanguageModelConfig(
        **sizes,
        decoder_layers=2,
        decoder_input_dim=32,
        decoder_output_dim=32,
        max_target_positions=64,
    )
    torch.manual_seed(5)
    return TransformerLanguageModel.build_model(args, task).eval()


def test_fusion_with_a_language_model() -> None:
    assert_equal(generator(transformer(), lm_model=language_model(), lm_weight=0.4))


def test_generation_by_a_language_model() -> None:
    model = language_model()
    prepare(model)
    prefix = torch.randint(4, WORDS, (6, 3))
    assert_equal(generator(model), prefix_tokens=prefix)


def test_weights_changed_in_place_are_packed_again() -> None:
    model = transformer()
    assert_equal(generator(model))
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight.mul_(-1)
        model.decoder.output_projection.weight.add_(0.3)
    assert_equal(generator(model))


def test_models_in_training_are_not_packed() -> None:
    assert_equal(generator(transformer(prepared=False)), fast=False)


@pytest.mark.parametrize("changes", [{"cross_self_attention": True}, {"scale_heads": True}])
def test_other_decoders_use_the_search_of_fairseq(changes: dict[str, Any]) -> None:
    assert_equal(generator(transformer(**changes)), fast=False)


def test_other_precisions_use_the_search_of_fairseq() -> None:
    assert_equal(generator(transformer().double()), fast=False)


def test_models_can_be_copied_after_a_search() -> None:
    model = transformer()
    search = generator(model)
    expected = assert_equal(search)
    assert generator(copy.deepcopy(model)).generate([], batch())[0][0]["tokens"].tolist() == (
        expected[0][0]["tokens"].tolist()
    )


def test_without_packed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_step, "can_pack", lambda: False)
    assert_equal(generator(transformer()))


def test_rows_are_assigned_within_a_sentence() -> None:
    parents = torch.tensor([2, 0, 2, 5, 5, 5])
    rows, sources, targets = assign_rows(parents)
    assert rows.tolist() == [2, 0, 1, 5, 3, 4]
    assert (sources.tolist(), targets.tolist()) == ([2, 5, 5], [1, 3, 4])


@pytest.mark.parametrize("words", [7, 8, 64])
def test_best_words_of_groups(words: int) -> None:
    logits = torch.randn(5, words)
    values, index = top_words(logits, 3)
    expected: tuple[Tensor, Tensor] = logits.topk(3, 1)
    assert values.tolist() == expected[0].tolist()
    assert index.tolist() == expected[1].tolist()
