"""Sentence scores, compared with one forward pass per token."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference import language_models, loading, translation_scorer
from fairseq_ssl.inference.scorers import scorer_loader
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
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of checkpoints: t*, l* and m* by kind, and back.pt for the reverse."""
    folder = tmp_path_factory.mktemp("scorers")
    data = random_models.data_folder(folder / "data")
    for seed in (1, 2):
        random_models.translation(folder / f"t{seed}.pt", data, seed)
        random_models.language_model(folder / f"l{seed}.pt", data, seed)
        random_models.masked_model(folder / f"m{seed}.pt", data, seed)
    random_models.translation(folder / "back.pt", data, 3, reverse=True)
    return folder


def scoring(folder: Path, kind: str, *names: str, **options: Any) -> ScoringConfig:
    paths = tuple(folder / f"{name}.pt" for name in names)
    return ScoringConfig(kind, paths, "name", data_dir=folder / "data", **options)


def loaded(path: Path) -> tuple[Any, Any]:
    from fairseq import checkpoint_utils

    options = {"data": str(path.parent / "data")}
    ensemble, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], options)
    return ensemble[0].eval(), task


def token_scores(path: Path, source: list[str], target: list[str]) -> list[Tensor]:
    """Return log P of each target token and of the end symbol, one forward pass per token."""
    model, task = loaded(path)
    ids = task.source_dictionary.encode_line(
        " ".join(source), add_if_not_exist=False, append_eos=True
    ).long()
    dictionary = task.target_dictionary
    prefix, scores = [dictionary.eos()], []
    for token in [*map(dictionary.index, target), dictionary.eos()]:
        with torch.no_grad():
            logits = model(ids[None], torch.tensor([len(ids)]), torch.tensor([prefix]))[0]
        scores.append(logits[0, -1].log_softmax(-1)[token])
        prefix.append(token)
    return scores


def reference_translation(paths: list[Path], source: list[str], target: list[str]) -> float:
    each = torch.stack([torch.stack(token_scores(path, source, target)) for path in paths])
    return float(each.exp().mean(0).log().sum())


def values(scoring: ScoringConfig, pairs: list[TokenPair] = PAIRS) -> list[tuple[float, ...]]:
    return scorer_loader(scoring)(scoring, 0).score(pairs).values


@pytest.mark.parametrize("names", [("t1",), ("t1", "t2")])
def test_forced_decoding_is_equal_to_one_forward_pass_per_token(
    models: Path, names: tuple[str, ...]
) -> None:
    paths = [models / f"{name}.pt" for name in names]
    sums = [reference_translation(paths, *pair) for pair in PAIRS]
    assert max(sums) - min(sums) > 5
    for max_tokens in BATCHES:
        scores = values(scoring(models, TRANSLATION, *names, max_tokens=max_tokens, lenpen=0.0))
        assert [row[0] for row in scores] == pytest.approx(sums, abs=1e-4)
    by_length = [
        total / (len(target) + 1) ** 0.7 for total, (_, target) in zip(sums, PAIRS, strict=True)
    ]
    scores = values(scoring(models, TRANSLATION, *names, lenpen=0.7))
    assert [row[0] for row in scores] == pytest.approx(by_length, abs=1e-4)


def test_right_to_left_and_reverse_models(models: Path) -> None:
    sums = [reference_translation([models / "t1.pt"], a, b[::-1]) for a, b in PAIRS]
    left = scoring(models, TRANSLATION, "t1", lenpen=0.0, right_to_left=True)
    assert [row[0] for row in values(left)] == pytest.approx(sums, abs=1e-4)
    sums = [reference_translation([models / "back.pt"], b, a) for a, b in PAIRS]
    back = scoring(models, TRANSLATION, "back", lenpen=0.0, reverse=True)
    assert [row[0] for row in values(back)] == pytest.approx(sums, abs=1e-4)


def test_right_to_left_is_read_from_the_checkpoint(models: Path, tmp_path: Path) -> None:
    state = torch.load(models / "t1.pt", weights_only=False)
    state["cfg"]["task"]["right_to_left"] = True
    torch.save(state, tmp_path / "r.pt")
    left_to_right = scoring(models, TRANSLATION, "t1")
    right_to_left = ScoringConfig(TRANSLATION, (tmp_path / "r.pt",), "name", models / "data")
    assert not loading.writes_right_to_left(left_to_right)
    assert loading.writes_right_to_left(right_to_left)


def reference_copying(path: Path, source: list[str], target: list[str]) -> float:
    """Return log P of a target from the scorer of fairseq-generate --score-reference."""
    model, task = loaded(path)
    words = task.source_dictionary
    tokens, gold = (
        torch.tensor([[*map(words.index, side), words.eos()]]) for side in (source, target)
    )
    lengths = torch.tensor([tokens.size(1)])
    net_input = {"src_tokens": tokens, "src_lengths": lengths, "prev_output_tokens": gold.roll(1)}
    sample = {"net_input": net_input, "target": gold, "ntokens": gold.numel()}
    scorer = task.build_generator([model], SimpleNamespace(score_reference=True))
    with torch.no_grad():
        return float(scorer.generate([model], sample)[0][0]["positional_scores"].sum())


def test_words_that_are_only_copied_are_scored_at_their_column(tmp_path: Path) -> None:
    # The vocabulary is a, b and c. The other words can only be copied.
    path = random_models.copying(tmp_path / "copying.pt", tmp_path / "data", 4 + 3)
    texts = ("a b c", "b a"), ("e f g", "g f f"), ("d a e", "e g d"), ("a", "g f e d")
    pairs = [(source.split(), target.split()) for source, target in texts]
    pairs.append((["new", "f"], ["f", "other", "new"]))
    sums = [reference_copying(path, *pair) for pair in pairs]
    for max_tokens in BATCHES:
        config = scoring(tmp_path, TRANSLATION, "copying", max_tokens=max_tokens, lenpen=0.0)
        scorer = translation_scorer.TranslationScorer(config, 0)
        scored = scorer.score(pairs)
        assert [row[0] for row in scored.values] == pytest.approx(sums, abs=1e-4)
        assert scorer.source.surfaces == []
        assert (scored.tokens, scored.unknown) == (12 + 15, 3)


def reference_language_model(path: Path, words: list[str]) -> tuple[float, float]:
    """Return log P of the words and log P of the end symbol, one forward pass per token."""
    model, task = loaded(path)
    prefix, scores = [task.dictionary.eos()], []
    for token in [*map(task.dictionary.index, words), task.dictionary.eos()]:
        with torch.no_grad():
            logits = model(torch.tensor([prefix]))[0]
        scores.append(float(logits[0, -1].log_softmax(-1)[token]))
        prefix.append(token)
    return sum(scores[:-1]), scores[-1]


def test_language_model_and_slor_worked_out_by_hand(models: Path) -> None:
    log_probabilities = [reference_language_model(models / "l1.pt", target) for _, target in PAIRS]
    counts = {word: 3 * n + 1 for n, word in enumerate(TARGET_WORDS)}
    total = sum(counts.values()) + len(counts) + 4  # add-one smoothing, also of special symbols
    expected = []
    for (words, end), (_, target) in zip(log_probabilities, PAIRS, strict=True):
        unigrams = sum(math.log((counts.get(word, 0) + 1) / total) for word in target)
        slor = (words - unigrams) / max(len(target), 1)
        expected.append(((words + end) / (len(target) + 1), slor))
    for max_tokens in BATCHES:
        scores = values(scoring(models, LANGUAGE_MODEL, "l1", max_tokens=max_tokens))
        for row, expected_row in zip(scores, expected, strict=True):
            assert row == pytest.approx(expected_row, abs=1e-4)
    (models / "counts").write_text("u 5\nnone 9\n")
    with_counts = scoring(models, LANGUAGE_MODEL, "l1", unigrams=models / "counts")
    words, _ = reference_language_model(models / "l1.pt", ["v", "w", "u"])
    unigrams = 2 * math.log(1 / 15) + math.log(6 / 15)  # 5 for u, 6 words, 4 special symbols
    ((_, slor),) = values(with_counts, [([], ["v", "w", "u"])])
    assert slor == pytest.approx((words - unigrams) / 3, abs=1e-4)


def test_ensemble_of_language_models(models: Path) -> None:
    ends = [reference_language_model(models / f"{name}.pt", [])[1] for name in ("l1", "l2")]
    ((score, _),) = values(scoring(models, LANGUAGE_MODEL, "l1", "l2"), [([], [])])
    assert score == pytest.approx(math.log(sum(map(math.exp, ends)) / 2), abs=1e-5)


def test_the_padding_symbol_in_a_text_has_its_probability(models: Path) -> None:
    pairs = [(["a"], ["u", "<pad>", "v"]), (["a"], ["u"])]
    words, end = reference_language_model(models / "l1.pt", ["u", "<pad>", "v"])
    scores = values(scoring(models, LANGUAGE_MODEL, "l1"), pairs)
    assert scores[0][0] == pytest.approx((words + end) / 4, abs=1e-4)
    (sums,) = values(scoring(models, TRANSLATION, "t1", lenpen=0.0), pairs[:1])
    (both, _) = values(scoring(models, TRANSLATION, "t1", lenpen=0.0), pairs)
    assert sums == pytest.approx(both, abs=1e-4)
    (known,) = values(scoring(models, TRANSLATION, "t1", lenpen=0.0), [(["a"], ["u"])])
    assert both[0] < known[0] - 1


def reference_masked_model(path: Path, words: list[str]) -> float:
    """Return the sum of log P of the tokens, one forward pass per masked token."""
    model, task = loaded(path)
    dictionary = task.source_dictionary
    row = [dictionary.bos(), *map(dictionary.index, words), dictionary.eos()]
    total = 0.0
    for index in range(1, len(row) - 1):
        masked = torch.tensor([row])
        masked[0, index] = dictionary.index("<mask>")
        with torch.no_grad():
            scores = model(masked)[0][0, index]
        total += float(scores.log_softmax(-1)[row[index]])
    return total


def test_masked_model_masks_one_token_at_a_time(models: Path) -> None:
    sums = [reference_masked_model(models / "m1.pt", target) for _, target in PAIRS]
    assert len(set(sums)) == len(sums)
    for max_tokens in BATCHES:
        config = scoring(models, MASKED_MODEL, "m1", max_tokens=max_tokens)
        for row, total, (_, target) in zip(values(config), sums, PAIRS, strict=True):
            norm = ((5 + len(target)) / 6) ** 0.8
            expected = total / max(len(target), 1), total / norm
            assert row == pytest.approx(expected, abs=1e-4)


def test_mean_states_do_not_depend_on_the_batch(models: Path) -> None:
    model, task = loaded(models / "m1.pt")
    words = task.source_dictionary
    for max_tokens in BATCHES:
        config = scoring(models, MASKED_MODEL, "m1", max_tokens=max_tokens)
        means = language_models.MaskedStates(config, 0).means([target for _, target in PAIRS])
        for row, (_, target) in zip(means, PAIRS, strict=True):
            ids = [words.bos(), *map(words.index, target), words.eos()]
            with torch.no_grad():
                states = model(torch.tensor([ids]), features_only=True)[0][0, 1:-1]
            expected = states.double().mean(0).tolist() if target else [0.0] * 8
            assert row.tolist() == pytest.approx(expected, abs=1e-5)


def test_half_precision_gives_similar_scores(models: Path) -> None:
    for kind, name in ((TRANSLATION, "t1"), (LANGUAGE_MODEL, "l1"), (MASKED_MODEL, "m1")):
        full = [row[0] for row in values(scoring(models, kind, name))]
        half = [row[0] for row in values(scoring(models, kind, name, fp16=True))]
        assert half == pytest.approx(full, abs=0.03)


def test_long_sentences_are_truncated_and_counted(models: Path) -> None:
    long = [*["u", "v"] * 20, *["unheard"] * 20]  # unknown tokens that are truncated do not count
    for kind, name, max_length in ((LANGUAGE_MODEL, "l1", 19), (MASKED_MODEL, "m1", 18)):
        config = scoring(models, kind, name)
        scored = scorer_loader(config)(config, 0).score([([], long), ([], long[:max_length])])
        assert scored.cut == 1
        assert scored.values[0] == pytest.approx(scored.values[1])
        assert (scored.tokens, scored.unknown) == (2 * max_length, 0)
    config = scoring(models, LANGUAGE_MODEL, "l1")
    scored = language_models.LanguageModelScorer(config, 0).score(PAIRS)
    assert (scored.tokens, scored.unknown) == (17, 1)
    config = scoring(models, TRANSLATION, "t1")
    scored = translation_scorer.TranslationScorer(config, 0).score(PAIRS)
    assert (scored.tokens, scored.unknown) == (17 + 20, 2)


def test_wrong_models_and_data_are_rejected(models: Path, tmp_path: Path) -> None:
    other_data = ScoringConfig(LANGUAGE_MODEL, (models / "l1.pt",), "name", tmp_path)
    (tmp_path / "counts").write_text("u x\n")
    (tmp_path / "unknown").write_text("none 3\n")
    wrong = {
        "language_modeling": scoring(models, TRANSLATION, "l1"),
        "masked-model": scoring(models, MASKED_MODEL, "t1"),
        "dict.txt": other_data,
        "counts:1": scoring(models, LANGUAGE_MODEL, "l1", unigrams=tmp_path / "counts"),
        "unknown": scoring(models, LANGUAGE_MODEL, "l1", unigrams=tmp_path / "unknown"),
    }
    for culprit, config in wrong.items():
        with pytest.raises((DataError, UsageError), match=culprit):
            values(config)
    (tmp_path / "dict.txt").write_text("u 1\nv 1\n")
    with pytest.raises(DataError, match="dictionaries of the training"):
        values(other_data)
