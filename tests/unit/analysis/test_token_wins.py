"""Scores of gold tokens, compared with fairseq, and a table worked out by hand."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ssl import register
from fairseq_ssl.analysis.configs import TokenWinsConfig
from fairseq_ssl.analysis.length_bleu import score_by_length
from fairseq_ssl.analysis.token_wins import (
    compare_gold_tokens,
    count_higher,
    frequency_ranks,
    gold_scores,
)
from fairseq_ssl.analysis.trained_models import TrainedModels
from fairseq_ssl.errors import DataError
from tests.conftest import PACKAGE, Run
from tests.unit.inference import random_models
from tests.unit.inference.random_models import binarized_split

register()
CONFIG = TokenWinsConfig(rank_bounds=(3,), position_bounds=(2,))


@pytest.fixture(scope="module")
def model(trained: Path, toy_data: Path) -> TrainedModels:
    return TrainedModels.load(trained / "checkpoint_last.pt", toy_data, "cpu")


def test_scores_are_equal_to_score_reference(
    model: TrainedModels, run: Run, trained: Path, toy_data: Path
) -> None:
    shown = run(
        *("fairseq-generate", toy_data, "--user-dir", PACKAGE, "--score-reference", "--cpu"),
        *("--path", trained / "checkpoint_last.pt", "--gen-subset", "valid"),
    ).stdout
    expected = dict(re.findall(r"^P-(\d+)\t(.*)$", shown, re.M))
    scores = gold_scores(model, model.split("valid"), 300, lambda count: None)
    assert len(expected) == len(scores) == 200
    for line, ours in enumerate(scores):
        theirs = [float(word) * math.log(2) for word in expected[str(line)].split()]
        np.testing.assert_allclose(ours, theirs[:-1], atol=1e-4)


def test_scores_are_those_of_the_distribution_of_the_model(tmp_path: Path) -> None:
    lines = "a b c\nd e f g\nb g\n", "b a\ng g d a\nf b\n"
    adaptive, data = tmp_path / "adaptive.pt", random_models.data_folder(tmp_path / "data")
    binarized_split(data, "valid", lines[0], "u v w\nx y z u\nz\n")
    random_models.translation(adaptive, data, 1, "--adaptive-softmax-cutoff", "5,7")
    copying = random_models.copying(tmp_path / "copying.pt", tmp_path / "joint", 4 + 3)
    binarized_split(tmp_path / "joint", "valid", *lines)
    for path, folder in ((adaptive, data), (copying, tmp_path / "joint")):
        trained = TrainedModels.load(path, folder, "cpu")
        dataset = trained.pairs("valid")
        for index, ours in enumerate(gold_scores(trained, dataset, 60, lambda count: None)):
            sample = dataset.collater([dataset[index]])
            with torch.inference_mode():
                output = trained.model(**sample["net_input"])
                probabilities = trained.model.get_normalized_probs(output, False)[0, :-1]
                columns = trained.model.get_targets(sample, output)[0, :-1]
            expected = [row[column] for row, column in zip(probabilities, columns, strict=True)]
            assert probabilities.sum(1).tolist() == pytest.approx([1.0] * len(ours))
            assert np.exp(ours).tolist() == pytest.approx(list(map(float, expected)), rel=1e-4)


def test_models_of_both_directions_are_compared_by_token(tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    for split in ("train", "valid"):
        lines = "a b c\nd e f\nb g\nc c a\n", "u v w x\nx y z u\nz u u y\nv v x z\n"
        binarized_split(data, split, *lines)
    left = random_models.translation(tmp_path / "left.pt", data, 1)
    right = random_models.translation(tmp_path / "right.pt", data, 2, "--right-to-left")
    models = {"left": [left], "right": [right]}
    found = compare_gold_tokens(models, data, CONFIG).results["models"]["right"]["all"]
    scores = []
    for path in (left, right):
        trained = TrainedModels.load(path, data, "cpu")
        dataset = trained.pairs("valid")
        model, ordered = trained.model, []
        for index in range(len(dataset)):
            sample = dataset.collater([dataset[index]])
            with torch.inference_mode():
                output = model(**sample["net_input"])
                log_p = model.get_normalized_probs(output, True)[0, :-1]
            gold = sample["target"][0, :-1]
            row = log_p.gather(1, gold[:, None])[:, 0].tolist()
            ordered.append(row[::-1] if path == right else row)
        scores.append(np.concatenate(ordered))
    assert found == pytest.approx(np.mean(scores[1] > scores[0]), abs=1e-4)
    assert compare_gold_tokens({"a": [right], "b": [right]}, data, CONFIG).results


def test_words_that_a_model_copies_count_as_unknown(tmp_path: Path) -> None:
    """Their ids, which a model that copies adds to the dictionary, have no frequency."""
    data = tmp_path / "joint"
    path = random_models.copying(tmp_path / "copying.pt", data, 4 + 3, "--dataset-impl", "raw")
    for split in ("train", "valid"):
        for side, lines in (("src", "a new c\nold e\n"), ("trg", "new a\ne old old\n")):
            (data / f"{split}.src-trg.{side}").write_text(lines)
    results = compare_gold_tokens({"a": [path], "b": [path]}, data, CONFIG).results
    assert results["models"]["b"]["all"] == 0
    assert sum(map(sum, results["models"]["b"]["tokens"])) == 5


def test_missing_training_targets_are_reported_before_the_work(tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    binarized_split(data, "valid", "a b\n", "u v\n")
    path = random_models.translation(tmp_path / "t.pt", data, 1)
    analyses: list[Any] = [compare_gold_tokens, score_by_length]
    for analysis in analyses:
        with pytest.raises(DataError, match="contains no split 'train'"):
            analysis({"a": [path], "b": [path]}, data, progress=pytest.fail)


def test_scores_do_not_depend_on_the_side_of_padding(
    model: TrainedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = model.split("valid")
    scores = gold_scores(model, dataset, 300, lambda count: None)
    monkeypatch.setattr(dataset, "left_pad_target", not dataset.left_pad_target)
    for ours, other in zip(
        gold_scores(model, dataset, 300, lambda count: None), scores, strict=True
    ):
        np.testing.assert_allclose(ours, other, atol=1e-4)


def test_ranks_follow_the_counts_in_the_training_targets(
    model: TrainedModels, toy_text: Path
) -> None:
    counts = Counter((toy_text / "train.digits").read_text().split())
    ranks = frequency_ranks(model, chunk=7)
    words = model.task.target_dictionary
    for rank, (word, count) in enumerate(counts.most_common(), start=1):
        assert abs(ranks[words.index(word)] - rank) < len(counts)
        rarer = [other for other in counts if counts[other] < count]
        assert all(ranks[words.index(word)] < ranks[words.index(other)] for other in rarer)
    assert sorted(ranks) == list(range(1, len(words) + 1))
    assert ranks[words.eos()] > len(counts)


def test_table_worked_out_by_hand() -> None:
    first = [np.array([-1.0, -2.0, -3.0]), np.array([-1.0])]
    second = [np.array([-2.0, -2.0, -4.0]), np.array([-0.5])]
    ranks = [np.array([1, 2, 3]), np.array([2])]
    higher, total = count_higher(first, second, ranks, rank_ends=[2], position_ends=[1, 2])
    assert total.tolist() == [[2, 1, 0], [0, 0, 1]]
    assert higher.tolist() == [[1, 0, 0], [0, 0, 1]]  # the tie at -2 is not higher
