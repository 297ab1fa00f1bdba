"""Fluency equals that of a bigram model, computed word by word."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation import fluency_boost
from fairseq_ssl.generation.fluency_boost import Fluency, FluencyBoost
from fairseq_ssl.inference.language_models import LanguageModelScorer
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, ScoringConfig
from fairseq_ssl.models import recurrent_models
from fairseq_ssl.models.recurrent_models import RecurrentConfig, RecurrentLanguageModel
from tests.unit.inference import random_models

WORDS = ("a", "b", "c", "d")


def dictionary(words: tuple[str, ...]) -> Any:
    made = Dictionary()
    for word in words:
        made.add_symbol(word)
    return made


class Bigrams(torch.nn.Module):
    """A bigram language model that reads sentences of any length, such as fconv_lm."""

    def __init__(self, size: int, max_positions: float = math.inf) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.scores = torch.randn(size, size)
        self.max_positions = lambda: max_positions

    def forward(self, begun: Tensor, src_lengths: Tensor) -> Any:
        return self.scores[begun], {}

    @staticmethod
    def get_normalized_probs(output: Any, log_probs: bool, sample: Any) -> Tensor:
        scores: Tensor = output[0]
        return scores.log_softmax(-1)


LM = dictionary(WORDS[::-1])
MODEL = Bigrams(len(LM))


def plainly(words: str) -> float:
    """Compute the fluency of words, one bigram at a time."""
    ids = [LM.eos(), *map(LM.index, words.split()), LM.eos()]
    total = 0.0
    for before, word in pairwise(ids):
        row = MODEL.scores[before].tolist()
        total -= row[word] - math.log(sum(math.exp(score) for score in row))
    return 1 / (1 + total / (len(ids) - 1))


SENTENCES = ("a b c", "d", "a", "c c c c c a", "b unheard d", "")


def test_fluency_does_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [LM.encode_line(line, add_if_not_exist=False).long() for line in SENTENCES]
    for most in (4000, 8, 1):
        monkeypatch.setattr(fluency_boost, "MAX_TOKENS", most)
        for model in (MODEL, Bigrams(len(LM), 1e6)):
            found = Fluency(model, LM).score(ids).tolist()
            assert found == pytest.approx([plainly(line) for line in SENTENCES], abs=1e-6)


@torch.no_grad()
def test_fluency_of_a_model_with_an_adaptive_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    monkeypatch.setattr(recurrent_models, "CUTOFFS", (3, 5))
    config = RecurrentConfig(recurrent_embed_dim=8, recurrent_hidden_dim=8)
    model = RecurrentLanguageModel.build_model(config, SimpleNamespace(source_dictionary=LM)).eval()
    ids = [LM.encode_line(line, add_if_not_exist=False).long() for line in SENTENCES]
    expected = []
    for words in ids:
        total = 0.0
        for end, word in enumerate(words.tolist()):
            states = model(torch.tensor([[LM.eos(), *words[:end].tolist()]]))[0]
            every = model.decoder.adaptive_softmax.get_log_prob(states, None)
            assert every[0, -1].exp().sum().item() == pytest.approx(1)
            total -= every[0, -1, word].item()
        expected.append(1 / (1 + total / len(words)))
    assert Fluency(model, LM).score(ids).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("flags", [(), ("--add-bos-token",)])
def test_fluency_of_a_checkpoint_equals_its_score(flags: tuple[str, ...], tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    positions = "--decoder-learned-pos", "--tokens-per-sample", "16"
    path = random_models.language_model(tmp_path / "lm.pt", data, 1, *positions, *flags)
    fluency = Fluency.load(path, data)
    lines = ["u v w x", "", "z", "y", " ".join(["v", "w"] * 10)]
    ids = [fluency.dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    scorer = LanguageModelScorer(ScoringConfig(LANGUAGE_MODEL, (path,), "lm", data), 0)
    scores = [values[0] for values in scorer.score([([], line.split()) for line in lines]).values]
    expected = [1 / (1 - score) for score in scores]
    assert fluency.score(ids).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.05])
def test_less_fluent_hypotheses_are_kept(ratio: float) -> None:
    source, target = dictionary(WORDS), dictionary(WORDS[2:] + WORDS[:2])
    given = ("a b c", "d d")
    made = (("a b", "c c c", "d a d", "b"), ("a", "b c", "d d"))

    def generate(models: Any, sample: Any) -> Any:
        encoded = (
            [target.encode_line(line, add_if_not_exist=False).long() for line in lines]
            for lines in made
        )
        return [[{"tokens": tokens, "score": 0.0} for tokens in one] for one in encoded]

    rows = [source.encode_line(line, add_if_not_exist=False).long() for line in given]
    padded = torch.full((2, 4), source.pad())
    for row, tokens in zip(padded, rows, strict=True):
        row[-len(tokens) :] = tokens
    boost = FluencyBoost(
        *(SimpleNamespace(generate=generate, eos="that of the generator"), Fluency(MODEL, LM)),
        *(source, target, ratio),
    )
    assert boost.eos == "that of the generator"
    kept = boost.generate([], {"net_input": {"src_tokens": padded}})
    for line, lines, found in zip(given, made, kept, strict=True):
        expected = [one for one in lines if plainly(line) / plainly(one) >= ratio]
        assert [target.string(one["tokens"]) for one in found] == (expected or [""])
        assert [one["score"] > -math.inf for one in found] == ([True] * len(expected) or [False])


def test_tags_do_not_change_the_fluency_of_sources() -> None:
    own = dictionary((*WORDS, "<BT>"))
    tag = own.index("<BT>")
    given, made = "a b c", "c c c"
    rows = [own.encode_line(line, add_if_not_exist=False).long() for line in (given, made)]
    tagged = torch.cat([torch.tensor([own.pad(), tag]), rows[0]])[None]
    bare = plainly(given) / plainly(made)
    unknown = plainly(f"<BT> {given}") / plainly(made)

    def is_kept(ratio: float) -> bool:
        generator = SimpleNamespace(generate=lambda *_: [[{"tokens": rows[1], "score": 0.0}]])
        boost = FluencyBoost(generator, Fluency(MODEL, LM), own, own, ratio, {tag})
        (found,) = boost.generate([], {"net_input": {"src_tokens": tagged}})
        return bool(found[0]["score"] == 0)

    low, high = sorted((bare, unknown))
    assert (is_kept(low - 1e-3), is_kept(high + 1e-3)) == (True, False)
    assert is_kept((low + high) / 2) == (bare > unknown)


def test_another_vocabulary_is_rejected() -> None:
    fluency, own = Fluency(MODEL, LM), dictionary(WORDS)
    other = dictionary(tuple(f"w{n}" for n in range(20)))
    with pytest.raises(ConfigurationError, match="contains only 4 of the 24 symbols"):
        FluencyBoost(SimpleNamespace(), fluency, own, other, 1)
