"""Screened decoding equals unscreened decoding wherever the screen lets a token pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.edit_choice import EditCandidates, EditChoice
from fairseq_ssl.generation.edit_probabilities import EditCandidateFinder
from tests import pretrained
from tests.unit.models.test_word_edit_tagger import EDITS, tagger, task_of

pytest.importorskip("transformers")
fairseq_ssl.register()

CPU = torch.device("cpu")
SENTENCES = ("good xyz film", "abc good", "xyz", " ".join(["good", "xyz", "film", "Bad"] * 12))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return task_of(pretrained.bert(tmp_path_factory.mktemp("bert") / "bert"))


def models(task: Any, count: int, on_words: bool = True, **options: Any) -> list[Any]:
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        words, task.words = task.words, task.words if on_words else None
        one = tagger(None, task, **options)
        task.words = words
        for weight in one.parameters():
            torch.nn.init.normal_(weight, std=0.5)
        found.append(one)
    return found


def candidates(some: list[Any], task: Any, screen: float = 0.0) -> EditCandidates:
    words = task.source_dictionary
    rows = [np.array([words.bos(), *map(words.index, one.split())]) for one in SENTENCES]
    return EditCandidateFinder(some, words, EDITS, screen=screen)(Spans.of(rows), CPU)


def first(some: EditCandidates, count: int) -> EditCandidates:
    """Return the first positions."""
    parts: list[Any] = [part[:count] for part in some]
    return EditCandidates(*parts)


def check(whole: EditCandidates, found: EditCandidates, passes: np.ndarray) -> None:
    pairs: list[tuple[Any, Any]] = [*zip(found, whole, strict=True)]
    for one, other in pairs:
        np.testing.assert_allclose(one[passes], other[passes], rtol=1e-4, atol=1e-6)
    assert (found.other[~passes] == -np.inf).all()
    assert (found.deleted[~passes] == -np.inf).all()
    choice = EditChoice(keep_bias=-1.0, delete_bias=1.0)
    labels = choice(found, np.array([0])).labels
    assert (labels[~passes] == 0).all()


@pytest.mark.parametrize(
    ("count", "on_words", "options"),
    [
        (1, True, {}),
        (2, False, {}),
        (1, False, {"edit_gap_inserts": True}),
        (2, True, {"edit_unfactorized": True}),
    ],
)
def test_with_a_detection_head(
    task: Any, count: int, on_words: bool, options: dict[str, Any]
) -> None:
    """The head's output is the estimate, also in windows of a long sentence."""
    some = models(task, count, on_words, edit_detection=True, **options)
    whole = candidates(some, task)
    for screen in (1e-9, float(np.median(whole.errors)), 1.0):
        found = candidates(some, task, screen)
        passes = whole.errors >= screen
        check(whole, found, passes)
        np.testing.assert_allclose(found.errors, whole.errors, rtol=1e-4)


@pytest.mark.parametrize("on_words", [True, False])
def test_without_a_detection_head(task: Any, on_words: bool) -> None:
    """The estimate is a softmax over the terms of equation 3 without r and a."""
    (model,) = models(task, 1, on_words)
    whole = candidates([model], task)
    words = task.source_dictionary
    grams = len(EDITS.grams)
    estimates = []
    for sentence in SENTENCES[:3]:
        tokens = torch.tensor([[words.bos(), *map(words.index, sentence.split()), words.eos()]])
        with torch.no_grad():
            encoded = model.encode(tokens)
            assert encoded.own is not None
            for own, hidden in zip(encoded.own, encoded.hidden, strict=True):
                logits = model.scores.edits(hidden)
                for label in range(len(logits)):
                    if label != 1 and not 2 + grams <= label < 2 + 2 * grams:
                        logits[label] += own @ model.scores._head(hidden)
                estimates.append(1 - float(logits.softmax(0)[0]))
    threshold = float(np.median(estimates)) + 1e-6
    passes = np.array(estimates) >= threshold
    assert 0 < passes.sum() < len(passes)
    found = candidates([model], task, threshold)
    short = len(passes)
    check(first(whole, short), first(found, short), passes)
    kept = 1 - np.array(estimates)[~passes]
    np.testing.assert_allclose(found.kept[:short][~passes], kept, rtol=1e-3, atol=1e-6)


def test_models_without_an_estimate_are_rejected(task: Any) -> None:
    with pytest.raises(ConfigurationError, match="--edit-screen"):
        candidates(models(task, 1), task, 2)
    for option in ("edit_gap_inserts", "edit_unfactorized"):
        some = models(task, 1) + models(task, 1, **{option: True})
        with pytest.raises(ConfigurationError, match="--edit-screen"):
            candidates(some, task, 0.5)
        candidates(some, task)
