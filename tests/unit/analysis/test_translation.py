"""Translations, compared with fairseq-generate, and swapped sources."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fairseq_ssl import register
from fairseq_ssl.analysis.configs import SwappedBleuConfig, TranslationConfig
from fairseq_ssl.analysis.swapped_bleu import first_references, score_swapped, swap
from fairseq_ssl.analysis.trained_models import TrainedModels, reference_lines, translate
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference import DecodingConfig, load_model
from fairseq_ssl.text.postprocessing import read_generated_lines
from tests.conftest import PACKAGE, Run
from tests.unit.inference import random_models

register()


def test_translations_are_equal_to_fairseq_generate(
    run: Run, trained: Path, toy_data: Path
) -> None:
    checkpoint = trained / "checkpoint_last.pt"
    shown = run(
        *("fairseq-generate", toy_data, "--user-dir", PACKAGE, "--cpu", "--beam", "3"),
        *("--path", checkpoint, "--gen-subset", "valid", "--max-len-a", "1.5"),
        *("--max-len-b", "20"),
    ).stdout
    model = TrainedModels.load(checkpoint, toy_data, "cpu")
    dataset = model.split("valid")
    batch_sizes: list[int] = []
    config = TranslationConfig(beam=3, max_tokens=200)
    lines = translate(model, dataset, config, batch_sizes.append)
    assert lines == list(read_generated_lines(shown.splitlines(), "H"))
    assert reference_lines(model, dataset) == list(read_generated_lines(shown.splitlines(), "T"))
    assert sum(batch_sizes) == len(lines) == 200
    assert len(batch_sizes) > 3, "more than one batch"


def test_a_separator_that_a_copying_model_does_not_know_is_rejected(tmp_path: Path) -> None:
    """Its dictionary gives an id to every word."""
    data = tmp_path / "joint"
    path = random_models.copying(tmp_path / "copying.pt", data, 4 + 3)
    random_models.binarized_split(data, "train", "a b\nc d e\n", "a b\nc d\n")
    with pytest.raises(DataError, match="does not contain '<sep>'"):
        score_swapped({"a": [path]}, data, SwappedBleuConfig(subwords="none"))


def test_lines_of_right_to_left_models_are_in_reading_order(tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    targets = ["v u w x y", "z w v"]
    random_models.binarized_split(data, "valid", "a b g c\nd e f\n", "\n".join(targets))
    path = random_models.translation(tmp_path / "t.pt", data, 6, "--right-to-left")
    model = TrainedModels.load(path, data, "cpu")
    dataset = model.pairs("valid")
    assert reference_lines(model, dataset) == targets
    assert first_references(model, dataset, [1, 0], "w") == ["z", "v u"]
    search = TranslationConfig(beam=3, max_len_a=0, max_len_b=5)
    config = DecodingConfig((path,), data, beam=3, max_len_b=5)
    expected = load_model(config, engine="fairseq").translate(["a b g c", "d e f"])
    assert translate(model, dataset, search, lambda count: None) == expected
    assert expected != [" ".join(reversed(line.split())) for line in expected]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([5, 6, 9, 7, 9, 8, 2], [7, 9, 8, 9, 5, 6, 2]),
        ([9, 7, 2], [7, 9, 2]),
        ([5, 9, 2], [9, 5, 2]),
        ([5, 6, 2], [5, 6, 2]),
    ],
)
def test_swap_moves_the_first_sentence_to_the_end(before: list[int], after: list[int]) -> None:
    assert swap(torch.tensor(before), mark=9).tolist() == after


def test_missing_files_and_splits_are_named(trained: Path, toy_data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.pt"):
        TrainedModels.load(tmp_path / "none.pt", toy_data, "cpu")
    with pytest.raises(DataError, match=str(tmp_path)):
        TrainedModels.load(trained / "checkpoint_last.pt", tmp_path, "cpu")
    model = TrainedModels.load(trained / "checkpoint_last.pt", toy_data, "cpu")
    with pytest.raises(DataError, match="'dev'"):
        model.split("dev")
    with pytest.raises(DataError, match="`max_tokens`"):
        next(model.batches(model.split("valid"), 2))
