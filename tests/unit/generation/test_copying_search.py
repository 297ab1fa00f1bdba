"""Search over the vocabulary and the words of the source."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.copying_search import (
    AggressiveCopyingGenerator,
    CopyingEnsemble,
    CopyingGenerator,
    CopyingScorer,
)

fairseq_ssl.register()
from fairseq.search import Sampling  # noqa: E402

from tests.unit.models.test_pointer_transformer import (  # noqa: E402
    VOCABULARY,
    log_probabilities,
    sample,
    tiny,
)
from tests.unit.models.tiny_models import EOS, UNK, dictionary  # noqa: E402

SOURCES = [[900, 5, 77, 900, 15], [77, 6], [5, 6, 7, 8, 9, 15, 16]]
"""Unknown words, also repeated or of another sentence, and words beyond the vocabulary."""


def eager(seed: int = 3) -> Any:
    """Return a model with a high copy probability."""
    model = tiny(seed).float()
    with torch.no_grad():
        model.decoder.copy_attention.gate.bias.fill_(-4.0)
    return model


def search(models: list[Any], sources: list[list[int]], **options: Any) -> list[list[Any]]:
    options = {"beam_size": 3, "max_len_a": 1, "max_len_b": 4, **options}
    prefix = options.pop("prefix_tokens", None)
    found: list[list[Any]] = CopyingGenerator(models, dictionary(), **options).generate(
        models, sample(sources, sources, left=True), prefix_tokens=prefix
    )
    return found


def words_of(hypothesis: dict[str, Any]) -> list[int]:
    ids: list[int] = hypothesis["tokens"].tolist()
    assert ids[-1] == EOS
    return ids[:-1]


def scores(models: list[Any], source: list[int], target: list[int]) -> Tensor:
    """Return the log of the mean probability over models of each word of a target."""
    data = sample([source], [target], left=True)
    each = torch.stack([log_probabilities(model, data)[0][0].exp() for model in models])
    return each.mean(0).log()


@pytest.mark.parametrize("seeds", [[3], [3, 4]])
def test_scores_equal_the_model_probabilities_of_the_hypotheses(seeds: list[int]) -> None:
    models = [eager(seed) for seed in seeds]
    for source, hypotheses in zip(SOURCES, search(models, SOURCES), strict=True):
        assert len(hypotheses) == 3
        for hypothesis in hypotheses:
            expected = scores(models, source, words_of(hypothesis))
            torch.testing.assert_close(
                hypothesis["positional_scores"], expected.float(), atol=1e-4, rtol=1e-4
            )


def test_unknown_words_are_copied_from_their_own_sentence_only() -> None:
    copied = set()
    for source, hypotheses in zip(SOURCES, search([eager()], SOURCES), strict=True):
        for hypothesis in hypotheses:
            beyond = {word for word in words_of(hypothesis) if word >= VOCABULARY}
            assert beyond <= set(source)
            copied |= beyond
    assert {900, 77} <= copied


def test_probabilities_do_not_depend_on_the_batch() -> None:
    together = search([eager()], SOURCES, max_len_a=0, max_len_b=9)
    for source, expected in zip(SOURCES, together, strict=True):
        (alone,) = search([eager()], [source], max_len_a=0, max_len_b=9)
        assert [words_of(one) for one in alone] == [words_of(one) for one in expected]


@pytest.mark.parametrize("seeds", [[3], [3, 4]])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"unk_penalty": 2.0, "min_len": 5}])
def test_aggressive_decoding_equals_greedy_search(
    seeds: list[int], options: dict[str, Any]
) -> None:
    models = [eager(seed) for seed in seeds]
    data = sample(SOURCES, SOURCES, left=True)
    options = {"beam_size": 1, "max_len_b": 12, **options}
    found = [
        kind(models, dictionary(), **options).generate(models, data)
        for kind in (CopyingGenerator, AggressiveCopyingGenerator)
    ]
    written = [[words_of(one) for (one,) in hypotheses] for hypotheses in found]
    assert written[0] == written[1]
    assert any(word >= 20 for words in written[0] for word in words)  # out of vocabulary
    for (plain,), (fast,) in zip(*found, strict=True):
        for name in ("score", "positional_scores"):
            torch.testing.assert_close(fast[name], plain[name], atol=1e-4, rtol=1e-4)


def test_references_are_scored_with_unknown_words() -> None:
    model = eager()
    data = sample([SOURCES[0], SOURCES[1]], [[900, 77, 6], [77, 900]], left=True)
    found = CopyingScorer(dictionary()).generate([model], data)
    assert found[0][0]["tokens"].tolist() == [900, 77, 6, EOS]
    assert found[1][0]["tokens"].tolist() == [77, UNK, EOS]  # 900 is not in that source
    expected = scores([model], SOURCES[0], [900, 77, 6])
    torch.testing.assert_close(found[0][0]["positional_scores"], expected.float())
    assert data["target"].tolist() == [[900, 77, 6, EOS], [77, 900, EOS, 1]]


def test_prefix_tokens_may_be_unknown_words() -> None:
    prefix = torch.tensor([[77, 900], [77, 6], [15, 5]])
    for hypotheses, start in zip(
        search([eager()], SOURCES, prefix_tokens=prefix), prefix.tolist(), strict=True
    ):
        assert all(words_of(hypothesis)[:2] == start for hypothesis in hypotheses)


def test_temperature_applies_to_the_mixture() -> None:
    model = eager()
    encoded = model.encoder(torch.tensor([[900, 5, 900, EOS]]))
    tokens = torch.tensor([[EOS]])
    ensemble = CopyingEnsemble([model])
    plain, _ = ensemble.forward_decoder(tokens, [encoded], [{}])
    sharp, _ = ensemble.forward_decoder(tokens, [encoded], [{}], 0.5)
    square = plain.exp() ** 2
    torch.testing.assert_close(sharp.exp(), square / square.sum())


def test_sampling_follows_the_distribution() -> None:
    torch.manual_seed(0)
    model = eager()
    source = [900, 5, 77]
    firsts = []
    for _ in range(40):
        (found,) = search(
            [model], [source], beam_size=30, search_strategy=Sampling(dictionary()), max_len_b=2
        )
        firsts += [words_of(one)[0] for one in found if len(one["tokens"]) > 1]
    expected = math.exp(scores([model], source, [900])[0]) / (
        1 - math.exp(scores([model], source, [])[0])  # fairseq does not start with EOS
    )
    assert abs(firsts.count(900) / len(firsts) - expected) < 0.06


def test_unsupported_options_are_rejected() -> None:
    data, constraint = sample(SOURCES, SOURCES, True), torch.tensor([[1]])
    one, words = tiny(), dictionary()
    calls: dict[str, Callable[[], object]] = {
        "12 and 13": lambda: CopyingGenerator([one, tiny(copy_vocabulary=13)], words),
        "--lm-path": lambda: CopyingGenerator([one], words, lm_model=object()),
        "--constraints": lambda: CopyingGenerator([one], words).generate(
            [one], data, constraints=constraint
        ),
    }
    for culprit, call in calls.items():
        with pytest.raises(ConfigurationError, match=culprit):
            call()
