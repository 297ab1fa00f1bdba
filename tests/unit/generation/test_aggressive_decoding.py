"""Aggressive decoding equals fairseq's greedy search, in fewer steps."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqDecoder, FairseqEncoder, FairseqEncoderDecoderModel
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.copying_search import AggressiveGenerator, realign

fairseq_ssl.register()
from tests.unit.models import test_pointer_transformer as pointer  # noqa: E402
from tests.unit.models.test_pseudo_bidirectional_transformer import SENTENCES, tiny  # noqa: E402
from tests.unit.models.tiny_models import batch  # noqa: E402

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
            before = source[place - 1] if place else None
            follows[word] = (
                follows[follows[before]] if len(source) == len(target) else follows[before]
            )

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


@pytest.mark.parametrize(
    "kinds",
    [("input",), ("prefix",), ("no-future-norms-before",), ("output-unshared", "prefix")],
)
def test_single_models_and_ensembles(kinds: tuple[str, ...]) -> None:
    models = [tiny(kind) for kind in kinds]
    assert_same(*both(models, SENTENCES, max_len_b=30))


def test_fairseq_transformer() -> None:
    from fairseq.models import ARCH_CONFIG_REGISTRY
    from fairseq.models.transformer import TransformerModel

    args = Namespace(share_all_embeddings=True)
    ARCH_CONFIG_REGISTRY["transformer_tiny"](args)
    words = dictionary()
    torch.manual_seed(1)
    model = TransformerModel.build_model(
        args, SimpleNamespace(source_dictionary=words, target_dictionary=words)
    ).eval()
    assert_same(*both([model], [[4, 5, 6, 7], [8, 9]], max_len_b=30))


@pytest.mark.parametrize("seeds", [(4,), (4, 5)])
def test_copying_models(seeds: tuple[int, ...]) -> None:
    models = [pointer.tiny(seed, copy_vocabulary=pointer.WORDS).float() for seed in seeds]
    for options in ({}, {"temperature": 0.7}, {"min_len": 9}):
        assert_same(*both(models, SENTENCES, **options))


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


@pytest.mark.parametrize(
    ("place", "chosen", "resume_at"),
    [(1, 15, 2), (1, 6, 3), (2, 5, 2), (2, 6, 3), (0, 9, 1), (3, 15, 3), (3, 6, 3)],
)
def test_realign(place: int, chosen: int, resume_at: int) -> None:
    assert realign([4, 5, 6], place, chosen) == resume_at


def test_unsupported_options_are_rejected() -> None:
    model = ByRule(fickle)
    words = model.decoder.dictionary
    for message, options in (
        ("--beam is 5", {"beam_size": 5}),
        ("--no-repeat-ngram-size", {"no_repeat_ngram_size": 2}),
        ("--lm-path", {"lm_model": torch.nn.Identity()}),
    ):
        with pytest.raises(ConfigurationError, match=message):
            AggressiveGenerator([model], words, **options)
    generator = AggressiveGenerator([model], words)
    with pytest.raises(ConfigurationError, match="--prefix-size"):
        generator.generate([model], sample([[4]]), prefix_tokens=torch.tensor([[4]]))
    for least, most in ((9, 3), (101, 300)):  # the model has 100 positions
        generator = AggressiveGenerator([model], words, min_len=least, max_len_b=most)
        with pytest.raises(
            ConfigurationError, match=f"--min-len is {least}, .* {min(most, 99)} tok"
        ):
            generator.generate([model], sample([[4]]))


def built(model: Any, target: Dictionary | None = None, **options: Any) -> Any:
    """Return the task's generator for the arguments of --eval-bleu."""
    from fairseq_ssl.tasks.local_transduction import LocalTransductionConfig, LocalTransductionTask

    words = model.decoder.dictionary
    cfg = LocalTransductionConfig(aggressive=True)
    task = LocalTransductionTask(cfg, words, words if target is None else target)
    return task.build_generator([model], Namespace(beam=1, **options))


def test_task_uses_aggressive_decoding_in_validation() -> None:
    assert type(built(ByRule(fickle))) is AggressiveGenerator
    assert type(built(pointer.tiny(copy_vocabulary=pointer.WORDS))) is AggressiveGenerator


def test_options_unsupported_by_the_task_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="--joined-dictionary"):
        built(ByRule(fickle), Dictionary())
    for options in ({"print_alignment": "hard"}, {"replace_unk": "@@ "}):
        with pytest.raises(ConfigurationError, match="cannot be used with --print-alignment"):
            built(ByRule(fickle), **options)
    with pytest.raises(
        ConfigurationError, match=r"generates 12 of the 20 words .* copying_translation"
    ):
        built(pointer.tiny())
