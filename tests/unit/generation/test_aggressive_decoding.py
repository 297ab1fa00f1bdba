"""Aggressive decoding equals fairseq's greedy search, in fewer steps."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
)
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.copying_search import AggressiveGenerator

fairseq_ssl.register()
from tests.unit.models import test_pointer_transformer as pointer  # noqa: E402
from tests.unit.models.test_pseudo_bidirectional_transformer import SENTENCES, tiny  # noqa: E402
from tests.unit.models.tiny_models import batch  # noqa: E402
from tests.unit.models.tiny_models import dictionary as pseudo_dictionary  # noqa: E402

PAD, EOS, UNK, FIRST = 1, 2, 3, 4
WORDS = 12


class Reader(FairseqEncoder):
    """An encoder that returns the source."""

    def forward(self, src_tokens: Tensor, **_: Any) -> dict[str, list[Tensor]]:
        return {"source": [src_tokens]}

    def reorder_encoder_out(self, encoder_out: Any, new_order: Tensor) -> Any:
        return {"source": [encoder_out["source"][0][new_order]]}


class Writer(FairseqDecoder):
    """A decoder that scores the next word by a rule, and counts its steps."""

    def __init__(self, dictionary: Dictionary, rule: Any) -> None:
        super().__init__(dictionary)
        self.rule = rule
        self.steps = 0
        self.words = 0

    def forward(
        self, prev_output_tokens: Tensor, encoder_out: Any = None, **_: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        self.steps += 1
        self.words += prev_output_tokens.numel()
        rows = []
        for source, target in zip(
            encoder_out["source"][0].tolist(), prev_output_tokens.tolist(), strict=True
        ):
            words = [token for token in source if token not in (PAD, EOS)]
            rows.append([self.rule(words, target[1 : i + 1]) for i in range(len(target))])
        return torch.tensor(rows), {"attn": [None]}

    def max_positions(self) -> int:
        return 100


class ByRule(FairseqEncoderDecoderModel):
    def __init__(self, rule: Any) -> None:
        words = dictionary()
        super().__init__(Reader(words), Writer(words, rule))


def dictionary() -> Dictionary:
    made = Dictionary()
    for i in range(WORDS):
        made.add_symbol(f"w{i}")
    return made


def scores_of(word: int) -> list[float]:
    return [4.0 if i == word else 0.01 * i for i in range(FIRST + WORDS)]


def corrector(source: list[int], target: list[int]) -> Any:
    """Return a rule that generates `target`, also after a word that `target` lacks."""
    follows = dict(zip([None, *target], [*target, EOS], strict=True))
    for place, word in enumerate(source):
        if word not in target:  # replaced or deleted
            after = follows[source[place - 1] if place else None]
            follows[word] = follows[after] if len(source) == len(target) else after

    def rule(source: list[int], written: list[int]) -> list[float]:
        return scores_of(follows[written[-1] if written else None])

    return rule


def fickle(source: list[int], written: list[int]) -> list[float]:
    """Copy the word at about the same position, or a random word, as decided by a hash."""
    drawn = hashlib.sha256(repr((source, written)).encode()).digest()
    scores = [byte / 64 + i / 1000 for i, byte in enumerate(drawn[: FIRST + WORDS])]
    place = len(written) + (drawn[20] < 60) - (drawn[21] < 60)
    if 0 <= place < len(source):
        scores[source[place]] += 3
    elif place >= len(source):
        scores[EOS] += 3
    return scores


def sample(sources: list[list[int]]) -> dict[str, Any]:
    tokens = batch(sources, left=True)
    return {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}


def both(models: list[Any], sources: list[list[int]], **options: Any) -> tuple[Any, Any]:
    """Return the hypotheses of fairseq's greedy search and of aggressive decoding."""
    words = models[0].decoder.dictionary
    options = {"beam_size": 1, "max_len_b": 15, **options}
    plain = SequenceGenerator(models, words, **options).generate(models, sample(sources))
    fast = AggressiveGenerator(models, words, **options).generate(models, sample(sources))
    return [found[0] for found in plain], [found[0] for found in fast]


def assert_same(plain: Any, fast: Any) -> None:
    for one, other in zip(plain, fast, strict=True):
        assert one["tokens"].tolist() == other["tokens"].tolist()
        for name in ("score", "positional_scores"):
            torch.testing.assert_close(one[name], other[name], atol=1e-5, rtol=1e-5)


sentences = st.lists(st.integers(FIRST - 1, FIRST + 4), max_size=12)


@settings(max_examples=25)
@given(
    sources=st.lists(sentences, min_size=1, max_size=4),
    options=st.sampled_from(
        (
            {},
            {"max_len_b": 3},
            {"max_len_a": 0.5, "max_len_b": 1},
            {"min_len": 6},
            {"unk_penalty": 2.0, "len_penalty": 0.3},
            {"normalize_scores": False, "temperature": 0.7},
            {"tokens_to_suppress": ("w1",)},
        )
    ),
)
def test_output_equals_greedy_search(sources: list[list[int]], options: dict[str, Any]) -> None:
    assert_same(*both([ByRule(fickle)], sources, **options))


def stock_transformer() -> Any:
    args = Namespace(share_all_embeddings=True)
    ARCH_CONFIG_REGISTRY["transformer_tiny"](args)
    torch.manual_seed(1)
    words = pseudo_dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return TransformerModel.build_model(args, task).eval()


def copying(seed: int) -> Any:
    return pointer.tiny(seed, copy_vocabulary=pointer.WORDS).float()


MODELS: dict[str, Callable[[], list[Any]]] = {
    "input": lambda: [tiny("input")],
    "prefix": lambda: [tiny("prefix")],
    "no future": lambda: [tiny("no-future-norms-before")],
    "ensemble": lambda: [tiny("output-unshared"), tiny("prefix")],
    "fairseq": lambda: [stock_transformer()],
    "copying": lambda: [copying(4)],
    "ensemble of copying models": lambda: [copying(4), copying(5)],
}


@pytest.mark.parametrize("name", MODELS)
def test_models_and_ensembles(name: str) -> None:
    for options in ({}, {"temperature": 0.7}, {"min_len": 9}):
        assert_same(*both(MODELS[name](), SENTENCES, **{"max_len_b": 30, **options}))


SOURCE = [4, 5, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        ([4, 5, 6, 7, 8, 9, 10, 11, 12], 1),
        ([4, 5, 15, 7, 8, 9, 10, 11, 12], 2),  # a replacement
        ([4, 5, 7, 8, 9, 10, 11, 12], 2),  # a deletion
        ([4, 5, 6, 7, 8, 15, 9, 10, 11, 12], 3),  # an insertion
        ([4, 15, 6, 7, 8, 9, 10, 14, 12], 2),  # two replacements
        ([4, 5, 6, 7, 8, 9, 10, 11], 2),  # a deletion at the end
        ([4, 5, 6, 7, 8, 9, 10, 11, 12, 14], 2),  # an insertion at the end
        ([4, 6, 5, 7, 8, 9, 10, 11, 12], 3),  # a transposition
    ],
)
def test_number_of_steps_depends_on_the_number_of_edits(target: list[int], steps: int) -> None:
    model = ByRule(corrector(SOURCE, target))
    generator = AggressiveGenerator([model], model.decoder.dictionary)
    ((found,),) = generator.generate([model], sample([SOURCE]))
    assert found["tokens"].tolist() == [*target, EOS]
    assert model.decoder.steps <= steps


def test_finished_sentences_are_removed_from_the_batch() -> None:
    model = ByRule(corrector([4, 5, 6], [4, 15, 6]))
    generator = AggressiveGenerator([model], model.decoder.dictionary)
    generator.generate([model], sample([[4, 15, 6], [4, 5, 6], [4, 5, 6]]))
    assert model.decoder.steps == 2
    assert model.decoder.words == 3 * 4 + 2 * 4


def built(model: Any, target: Dictionary | None = None, **options: Any) -> Any:
    """Return the task's generator for the arguments of --eval-bleu."""
    from fairseq_ssl.tasks.local_transduction import LocalTransductionTask
    from fairseq_ssl.tasks.translation_mixins import AggressiveConfig

    words = model.decoder.dictionary
    cfg = AggressiveConfig(aggressive=True)
    task = LocalTransductionTask(cfg, words, words if target is None else target)
    return task.build_generator([model], Namespace(beam=1, **options))


def test_task_uses_aggressive_decoding_in_validation() -> None:
    for model in (ByRule(fickle), pointer.tiny(copy_vocabulary=pointer.WORDS)):
        assert type(built(model)) is AggressiveGenerator


def test_unsupported_options_are_rejected() -> None:
    model = ByRule(fickle)

    def generate(prefix: Tensor | None = None, **options: Any) -> None:
        generator = AggressiveGenerator([model], model.decoder.dictionary, **options)
        generator.generate([model], sample([[4]]), prefix_tokens=prefix)

    calls: dict[str, Callable[[], object]] = {
        "--beam": lambda: generate(beam_size=5),
        "--no-repeat-ngram-size": lambda: generate(no_repeat_ngram_size=2),
        "--lm-path": lambda: generate(lm_model=torch.nn.Identity()),
        "--prefix-size": lambda: generate(torch.tensor([[4]])),
        "--min-len": lambda: generate(min_len=101, max_len_b=300),  # the model has 100 positions
        "--joined-dictionary": lambda: built(model, Dictionary()),
        "--print-alignment": lambda: built(model, print_alignment="hard"),
        "copying_translation": lambda: built(pointer.tiny()),
    }
    for culprit, call in calls.items():
        with pytest.raises(ConfigurationError, match=culprit):
            call()
