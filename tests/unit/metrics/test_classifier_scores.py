"""Scores of classifiers on examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.classifier_scores import (
    calibration_error,
    class_scores,
    macro_f1,
    score_predictions,
)


def test_scores_of_a_few_texts() -> None:
    found = class_scores([0, 0, 1, 2, 2], [0, 1, 1, 2, 0], 3)
    assert found.confusion.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert [found.error, found.accuracy] == pytest.approx([40, 60])
    assert found.macro_f1 == pytest.approx(100 * (1 / 2 + 2 / 3 + 2 / 3) / 3)
    assert found.calibration_error is None


def test_absent_classes_are_ignored() -> None:
    """The third class is only predicted. The fourth class does not occur."""
    confusion = np.array([[3, 1, 0, 0], [0, 3, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert macro_f1(confusion) == pytest.approx(100 * (6 / 7 + 6 / 8 + 0) / 3)


def test_calibration_error_of_an_example() -> None:
    """Bin 13 of 15 has two correct predictions of three. Bins 7 and 14 have one prediction."""
    right = np.array([True, True, False, True, True])
    found = calibration_error(right, [0.92, 0.92, 0.92, 0.5, 0.95])
    assert found == pytest.approx(100 * (3 * (0.92 - 2 / 3) + (1 - 0.5) + (1 - 0.95)) / 5)
    last_bin = calibration_error(np.array([False, True]), [1.0, 0.95])
    assert last_bin == pytest.approx(100 * (1.95 - 1) / 2)


def test_predictions_of_several_seeds_are_compared(tmp_path: Path) -> None:
    gold = tmp_path / "gold"
    gold.write_text("a\tone\na\ttwo\nb\tthree\nb\tfour\n")
    texts = {
        "certain": "a\ta=1 b=0\nb\ta=0.1 b=0.9\nb\ta=0 b=1\nb\ta=0 b=1\n",
        "plain": "a\na\nb\na\ta=0.8 b=0.2\n",
        "wrong": "b\nb\na\na\tthe text\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    systems = {"ours": ["certain", "plain"], "base": ["wrong"], "one": ["certain"]}
    paths = {name: [tmp_path / file for file in files] for name, files in systems.items()}
    ours, base, one = score_predictions(gold, paths, "base", samples=20).systems.values()
    assert ours["error"]["values"] == [25, 25]
    assert ours["confusion"] == [[3, 1], [1, 3]]
    assert "calibration_error" not in ours  # three lines of a seed have no probability
    assert one["calibration_error"]["mean"] == pytest.approx(100 * 0.9 / 4)
    assert ours["against"]["difference"] == -75
    assert "against" not in base


def test_predictions_can_have_classes_that_the_gold_file_lacks(tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold", tmp_path / "predicted"
    gold.write_text("neg\tx\npos\ty\n")
    predicted.write_text("neg\tneg=0.9 neutral=0.1\nneutral\tneg=0.2 neutral=0.8\n")
    report = score_predictions(gold, {"ours": [predicted], "gold": [gold]}, "gold", samples=5)
    ours = report.systems["ours"]
    assert report.classes == ["neg", "neutral", "pos"]
    assert ours["confusion"] == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert ours["accuracy"]["values"] == [50]
    assert ours["macro_f1"]["mean"] == pytest.approx(100 / 3)
    assert ours["calibration_error"]["mean"] == pytest.approx(100 * (0.1 + 0.8) / 2)
    assert ours["against"]["difference"] == 50


@pytest.mark.parametrize(
    "line", ["the film was good", "", "neg\tneg=nan pos=0", "neg\tneg=2 pos=0"]
)
def test_a_wrong_prediction_is_named_by_its_line(line: str, tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold", tmp_path / "predicted"
    gold.write_text("neg\tx\npos\ty\n")
    predicted.write_text(f"neg\n{line}\n")
    with pytest.raises(DataError, match="predicted:2"):
        score_predictions(gold, {"ours": [predicted]})
