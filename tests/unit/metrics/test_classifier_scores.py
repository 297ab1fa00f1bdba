"""Scores of classifiers on examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.classifier_scores import (
    calibration_error,
    class_scores,
    error_rate,
    error_statistics,
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
    assert macro_f1(np.array([[3, 1, 0], [0, 4, 0], [0, 0, 0]])) == pytest.approx(
        100 * (6 / 7 + 8 / 9) / 2
    )


def test_calibration_error_of_an_example() -> None:
    """Two of three predictions are correct at 0.9 and one of one at 0.5."""
    right = np.array([True, True, False, True])
    found = calibration_error(right, [0.9, 0.9, 0.9, 0.5])
    assert found == pytest.approx(100 * (3 * (0.9 - 2 / 3) + (1 - 0.5)) / 4)
    assert calibration_error(np.array([True]), [1.0]) == 0


def test_error_statistics_add_up() -> None:
    rows = error_statistics([0, 1, 1], [0, 0, 1])
    assert rows.tolist() == [[0, 1], [1, 1], [0, 1]]
    assert error_rate(rows.sum(0)) == pytest.approx(100 / 3)


@pytest.mark.parametrize("word", ["x", "nan", "2", "-1"])
def test_probabilities_are_numbers_from_0_to_1(word: str, tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold", tmp_path / "predicted"
    gold.write_text("a\ttext\n")
    predicted.write_text(f"a\ta={word} b=0\n")
    with pytest.raises(DataError, match=rf"predicted:1 has the probability '{word}'"):
        score_predictions(gold, {"one": [predicted]})
