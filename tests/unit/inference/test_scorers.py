"""Scores of sentences beside the same models, asked for one token of one sentence at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference import language_models, loading, translation_scorer
from fairseq_ssl.inference.scoring import (
    LANGUAGE_MODEL,
    MASKED_MODEL,
    TRANSLATION,
    ScoringConfig,
    TokenPair,
)
from tests.unit.inference import random_models
from tests.unit.inference.random_models import TARGET_WORDS

PAIRS: list[TokenPair] = [
    (source.split(), target.split())
    for source, target in (
        ("a b c", "u v w"),
        ("d", "x y z u v w"),
        ("a b c", "z"),
        ("a b c", ""),
        ("g f e d c b a", "u u u u"),
        ("a new b", "u unheard w"),
    )
]
BATCHES = (4000, 12, 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scorers")
    data = random_models.data_folder(folder / "data")
    for seed in (1, 2):
        random_models.translation(folder / f"t{seed}.pt", data, seed)
        random_models.language_model(folder / f"l{seed}.pt", data, seed)
        random_models.masked_model(folder / f"m{seed}.pt", data, seed)
    random_models.translation(folder / "back.pt", data, 3, reverse=True)
    return folder


def scoring(made: Path, kind: str, *names: str, **options: Any) -> ScoringConfig:
    paths = tuple(made / f"{name}.pt" for name in names)
    return ScoringConfig(kind, paths, "name", data_dir=made / "data", **options)


def loaded(path: Path) -> tuple[Any, Any]:
    from fairseq import checkpoint_utils

    options = {"data": str(path.parent / "data")}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], options)
    return models[0].eval(), task


def plain_steps(path: Path, source: list[str], target: list[str]) -> list[Tensor]:
    """Return log P of each token given those before it, a step after the other, and of the end."""
    model, task = loaded(path)
    given = task.source_dictionary.encode_line(
        " ".join(source), add_if_not_exist=False, append_eos=True
    ).long()
    dictionary = task.target_dictionary
    begun, steps = [dictionary.eos()], []
    for token in [*map(dictionary.index, target), dictionary.eos()]:
        with torch.no_grad():
            scores = model(given[None], torch.tensor([len(given)]), torch.tensor([begun]))[0]
        steps.append(scores[0, -1].log_softmax(-1)[token])
        begun.append(token)
    return steps


def plain_translation(paths: list[Path], source: list[str], target: list[str]) -> float:
    each = torch.stack([torch.stack(plain_steps(path, source, target)) for path in paths])
    return float(each.exp().mean(0).log().sum())


def values(scoring: ScoringConfig, pairs: list[TokenPair] = PAIRS) -> list[tuple[float, ...]]:
    load = (
        translation_scorer.load_translation_scorer
        if scoring.kind == TRANSLATION
        else language_models.load_language_model_scorer
    )
    return load(scoring, 0).score(pairs).values


@pytest.mark.parametrize("names", [("t1",), ("t1", "t2")])
def test_a_translation_is_scored_as_step_by_step(made: Path, names: tuple[str, ...]) -> None:
    paths = [made / f"{name}.pt" for name in names]
    sums = [plain_translation(paths, *pair) for pair in PAIRS]
    assert max(sums) - min(sums) > 5
    for most in BATCHES:
        plain = values(scoring(made, TRANSLATION, *names, max_tokens=most, lenpen=0.0))
        assert [row[0] for row in plain] == pytest.approx(sums, abs=1e-4)
    by_length = [
        total / (len(target) + 1) ** 0.7 for total, (_, target) in zip(sums, PAIRS, strict=True)
    ]
    found = values(scoring(made, TRANSLATION, *names, lenpen=0.7))
    assert [row[0] for row in found] == pytest.approx(by_length, abs=1e-4)


def test_other_directions(made: Path) -> None:
    sums = [plain_translation([made / "t1.pt"], a, b[::-1]) for a, b in PAIRS]
    left = scoring(made, TRANSLATION, "t1", lenpen=0.0, right_to_left=True)
    assert [row[0] for row in values(left)] == pytest.approx(sums, abs=1e-4)
    sums = [plain_translation([made / "back.pt"], b, a) for a, b in PAIRS]
    back = scoring(made, TRANSLATION, "back", lenpen=0.0, reverse=True)
    assert [row[0] for row in values(back)] == pytest.approx(sums, abs=1e-4)


def test_the_checkpoint_tells_of_its_direction(made: Path, tmp_path: Path) -> None:
    state = torch.load(made / "t1.pt", weights_only=False)
    state["cfg"]["task"]["right_to_left"] = True
    torch.save(state, tmp_path / "r.pt")
    told = scoring(made, TRANSLATION, "t1")
    right = ScoringConfig(TRANSLATION, (tmp_path / "r.pt",), "name", made / "data")
    tell = loading.writes_right_to_left
    assert (tell(told), tell(right)) == (False, True)
    assert not tell(ScoringConfig(TRANSLATION, right.models, "name", right_to_left=False))
    with pytest.raises(UsageError, match="Some of the models write from right to left"):
        tell(ScoringConfig(TRANSLATION, (*told.models, *right.models), "name"))


def plain_language_model(path: Path, words: list[str]) -> tuple[float, float]:
    """Return log P of the words and of the end after them, a token after the other."""
    model, task = loaded(path)
    begun, steps = [task.dictionary.eos()], []
    for token in [*map(task.dictionary.index, words), task.dictionary.eos()]:
        with torch.no_grad():
            scores = model(torch.tensor([begun]))[0]
        steps.append(float(scores[0, -1].log_softmax(-1)[token]))
        begun.append(token)
    return sum(steps[:-1]), steps[-1]


def test_a_language_model_and_slor_by_hand(made: Path) -> None:
    plain = [plain_language_model(made / "l1.pt", target) for _, target in PAIRS]
    counts = {word: 3 * n + 1 for n, word in enumerate(TARGET_WORDS)}
    every = sum(counts.values()) + len(counts) + 4  # each one more, and fairseq's four symbols
    expected = []
    for (words, end), (_, target) in zip(plain, PAIRS, strict=True):
        unigrams = sum(math.log((counts.get(word, 0) + 1) / every) for word in target)
        slor = (words - unigrams) / max(len(target), 1)
        expected.append(((words + end) / (len(target) + 1), slor))
    for most in BATCHES:
        found = values(scoring(made, LANGUAGE_MODEL, "l1", max_tokens=most))
        for row, wanted in zip(found, expected, strict=True):
            assert row == pytest.approx(wanted, abs=1e-4)
    (made / "counts").write_text("u 5\nnone 9\n")
    own = scoring(made, LANGUAGE_MODEL, "l1", unigrams=made / "counts")
    words, _ = plain_language_model(made / "l1.pt", ["v", "w", "u"])
    unigrams = 2 * math.log(1 / 15) + math.log(6 / 15)  # six words, four symbols, and u
    ((_, slor),) = values(own, [([], ["v", "w", "u"])])
    assert slor == pytest.approx((words - unigrams) / 3, abs=1e-4)


def test_an_ensemble_of_language_models(made: Path) -> None:
    _, end = plain_language_model(made / "l1.pt", [])
    _, other = plain_language_model(made / "l2.pt", [])
    found = values(scoring(made, LANGUAGE_MODEL, "l1", "l2"), [([], [])])
    assert found[0][0] == pytest.approx(math.log((math.exp(end) + math.exp(other)) / 2), abs=1e-5)


def plain_masked(path: Path, words: list[str], logits: bool = False) -> float:
    """Mask one token after the other, a forward pass for each."""
    model, task = loaded(path)
    dictionary = task.source_dictionary
    row = [dictionary.bos(), *map(dictionary.index, words), dictionary.eos()]
    total = 0.0
    for place in range(1, len(row) - 1):
        masked = torch.tensor([row])
        masked[0, place] = dictionary.index("<mask>")
        with torch.no_grad():
            scores = model(masked)[0][0, place]
        total += float(scores[row[place]] if logits else scores.log_softmax(-1)[row[place]])
    return total


def test_a_masked_model_masks_each_token_by_itself(made: Path) -> None:
    sums = [plain_masked(made / "m1.pt", target) for _, target in PAIRS]
    assert len(set(sums)) == len(sums)
    for most in BATCHES:
        found = values(scoring(made, MASKED_MODEL, "m1", max_tokens=most, alpha=0.5))
        for row, total, (_, target) in zip(found, sums, PAIRS, strict=True):
            norm = ((5 + len(target)) / 6) ** 0.5
            expected = total / max(len(target), 1), total / norm
            assert row == pytest.approx(expected, abs=1e-4)
    literal = values(scoring(made, MASKED_MODEL, "m1", logits=True))
    sums = [plain_masked(made / "m1.pt", target, logits=True) for _, target in PAIRS]
    assert [row[0] * max(len(t), 1) for row, (_, t) in zip(literal, PAIRS, strict=True)] == (
        pytest.approx(sums, abs=1e-4)
    )


def test_half_precision_is_near(made: Path) -> None:
    for kind, name in ((TRANSLATION, "t1"), (LANGUAGE_MODEL, "l1"), (MASKED_MODEL, "m1")):
        whole = [row[0] for row in values(scoring(made, kind, name))]
        half = [row[0] for row in values(scoring(made, kind, name, fp16=True))]
        assert half == pytest.approx(whole, abs=0.03)


def test_what_is_too_long_is_cut_and_counted(made: Path) -> None:
    long = ["u", "v"] * 20
    for kind, name, most in ((LANGUAGE_MODEL, "l1", 19), (MASKED_MODEL, "m1", 18)):
        scorer = language_models.load_language_model_scorer(scoring(made, kind, name), 0)
        found = scorer.score([([], long), ([], long[:most])])
        assert found.cut == 1
        assert found.values[0] == pytest.approx(found.values[1])
        assert (found.tokens, found.unknown) == (2 * most, 0)
    found = language_models.load_language_model_scorer(
        scoring(made, LANGUAGE_MODEL, "l1"), 0
    ).score(PAIRS)
    assert (found.tokens, found.unknown) == (17, 1)
    found = translation_scorer.load_translation_scorer(scoring(made, TRANSLATION, "t1"), 0).score(
        PAIRS
    )
    assert (found.tokens, found.unknown) == (17 + 20, 2)


def test_what_a_model_is_not_made_for_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="language_modeling, so it is a language-model"):
        values(scoring(made, TRANSLATION, "l1"))
    with pytest.raises(UsageError, match="so it is a translation, not a masked-model"):
        values(scoring(made, MASKED_MODEL, "t1"))
    lost = ScoringConfig(LANGUAGE_MODEL, (made / "l1.pt",), "name", tmp_path)
    with pytest.raises(DataError, match=r"dict.txt does not exist. Set `data_dir`"):
        values(lost)
    (tmp_path / "dict.txt").write_text("u 1\nv 1\n")
    with pytest.raises(DataError, match="Expected the dictionaries of its training"):
        values(lost)
    for text, told in (("u x\n", r"counts:1 is 'u x'"), ("none 3\n", "no token that")):
        (tmp_path / "counts").write_text(text)
        with pytest.raises(DataError, match=told):
            values(scoring(made, LANGUAGE_MODEL, "l1", unigrams=tmp_path / "counts"))
