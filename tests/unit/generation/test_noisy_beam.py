"""Noisy beam search: random numbers, hypotheses and scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.generation.noisy_beam import (
    GRANULARITIES,
    BeamNoise,
    NoisyBeamSearch,
    NoisyGenerator,
)

fairseq_ssl.register()
from tests.unit.models.test_pseudo_bidirectional_transformer import SENTENCES, tiny  # noqa: E402
from tests.unit.models.tiny_models import EOS, batch, dictionary  # noqa: E402

BITS = (1 << 64) - 1
every_kind = pytest.mark.parametrize("per", GRANULARITIES)


def mixed(number: int) -> int:
    """Compute SplitMix64 with Python integers."""
    number = (number + 0x9E3779B97F4A7C15) & BITS
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & BITS
    return number ^ (number >> 31)


def plain(seed: int, sentence: int, before: list[int], word: int, per: str) -> float:
    """Compute r for a word after a prefix, which begins with a start symbol."""
    key = mixed((mixed(seed) + sentence) & BITS)
    for place, earlier in enumerate(before):
        key = (key + mixed((mixed(place) + earlier) & BITS)) & BITS
    key = mixed(key)
    if per == "candidate":
        key = mixed((key + word) & BITS)
    return (key >> 40) / 2**24


def next_words(noise: BeamNoise, sentences: Tensor, prefixes: Tensor, vocabulary: int) -> Tensor:
    """Return the noise of all words after each prefix [rows, vocabulary]."""
    rows = torch.arange(len(prefixes)).repeat_interleave(vocabulary)
    words = torch.arange(vocabulary).repeat(len(prefixes))
    return noise.for_next_words(sentences, prefixes, rows, words).view(-1, vocabulary)


@every_kind
def test_noise_equals_the_reference(per: str) -> None:
    noise = BeamNoise(6.0, per, seed=5)
    written = torch.tensor([[EOS, 7, 9], [EOS, 9, 7]])
    found = next_words(noise, torch.tensor([3, 11]), written, 20)
    for row, (sentence, words) in enumerate(zip([3, 11], written.tolist(), strict=True)):
        expected = [6 * plain(5, sentence, words, word, per) for word in range(20)]
        torch.testing.assert_close(found[row], torch.tensor(expected))
        along = noise.for_hypothesis(torch.tensor(sentence), torch.tensor([*words, 13]))
        rest = [6 * plain(5, sentence, words[: t + 1], words[t + 1], per) for t in range(2)]
        torch.testing.assert_close(along, torch.tensor([*rest, expected[13]]))


@every_kind
@pytest.mark.parametrize(("beta", "sharpness"), [(0, 4), (0.3, 0.1), (6, 4), (6, 50), (1000, 0.1)])
def test_the_search_chooses_as_with_noise_on_all_words(
    per: str, beta: float, sharpness: float
) -> None:
    torch.manual_seed(1)
    noise = BeamNoise(beta, per)
    ids = torch.tensor([5, 2, 9])
    for step in range(3):
        lprobs = (sharpness * torch.randn(3, 4, 60)).log_softmax(-1)
        lprobs[:, :, :5] = -torch.inf
        lprobs[1, :, 7:] = -torch.inf  # fewer words than candidates
        lprobs[2, 1:3] = -torch.inf
        scores = -10 * torch.rand(3, 4, step)
        prefixes = torch.randint(4, 60, (12, step + 1))
        added = next_words(noise, ids.repeat_interleave(4), prefixes, 60).view(3, 4, 60)
        expected = BeamSearch(dictionary()).step(step, lprobs + added, scores)
        found = NoisyBeamSearch(dictionary(), noise).step(step, lprobs, scores, prefixes, ids)
        real = expected[0] > -torch.inf
        for one, other in zip(found, expected, strict=True):
            assert one[real].equal(other[real])
        assert found[0].equal(expected[0])


def search(kind: Any, model: Any, sources: list[list[int]], **options: Any) -> Any:
    ids = options.pop("ids", None)
    left = options.pop("left", True)
    options = {"beam_size": 3, "max_len_a": 1, "max_len_b": 3, **options}
    tokens = batch(sources, left)
    sample: dict[str, Any] = {
        "net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}
    }
    if ids is not None:
        sample["id"] = torch.tensor(ids)
    return kind([model], dictionary(), **options).generate([model], sample)


def words(found: Any) -> list[list[list[int]]]:
    return [[hypothesis["tokens"].tolist() for hypothesis in one] for one in found]


def model() -> Any:
    return tiny("stock").float()


@every_kind
def test_without_noise_it_equals_beam_search(per: str) -> None:
    ours = search(NoisyGenerator, model(), SENTENCES, noise=BeamNoise(0.0, per))
    stock = search(SequenceGenerator, model(), SENTENCES)
    assert words(ours) == words(stock)
    for one, other in zip(ours, stock, strict=True):
        for hypothesis, expected in zip(one, other, strict=True):
            for name in ("score", "positional_scores"):
                assert hypothesis[name].equal(expected[name])


@every_kind
def test_hypotheses_have_clean_scores_in_noisy_order(per: str) -> None:
    noise = BeamNoise(6.0, per)
    found = search(NoisyGenerator, model(), SENTENCES, noise=noise, ids=[3, 5, 7, 9])
    disorder = 0
    for sentence, source, hypotheses in zip([3, 5, 7, 9], SENTENCES, found, strict=True):
        ranks = []
        for hypothesis in hypotheses:
            target = hypothesis["tokens"]
            scored = score(source, target)
            for name in ("score", "positional_scores"):
                torch.testing.assert_close(hypothesis[name], scored[name], atol=1e-4, rtol=1e-4)
            before = torch.cat([torch.tensor([EOS]), target])
            added = noise.for_hypothesis(torch.tensor(sentence), before)
            ranks.append(float(hypothesis["score"] + added.mean()))
        assert ranks == sorted(ranks, reverse=True)
        clean = [float(hypothesis["score"]) for hypothesis in hypotheses]
        disorder += clean != sorted(clean, reverse=True)
    assert disorder


def score(source: list[int], target: Tensor) -> dict[str, Tensor]:
    """Return the teacher-forced score of a target."""
    tokens = batch([source])
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}
    sample = {
        "net_input": {**net_input, "prev_output_tokens": target.roll(1)[None]},
        "target": target[None],
    }
    found: dict[str, Tensor] = SequenceScorer(dictionary()).generate([model()], sample)[0][0]
    return found


@every_kind
def test_hypotheses_do_not_depend_on_batch_and_padding(per: str) -> None:
    options: dict[str, Any] = {"noise": BeamNoise(6.0, per), "max_len_a": 0, "max_len_b": 8}
    together = words(search(NoisyGenerator, model(), SENTENCES, ids=[4, 1, 0, 2], **options))
    for place, number in enumerate([4, 1, 0, 2]):
        (alone,) = words(
            search(NoisyGenerator, model(), [SENTENCES[place]], ids=[number], **options)
        )
        assert alone == together[place]
    # without ids, a sentence is identified by its words, whatever its padding
    typed = words(search(NoisyGenerator, model(), SENTENCES, **options))
    for place, source in enumerate(SENTENCES):
        for left in (True, False):
            (alone,) = words(search(NoisyGenerator, model(), [source], left=left, **options))
            assert alone == typed[place]
