"""Agreement of predicted and reference edits of examples."""

from __future__ import annotations

import pytest

from fairseq_ssl.edits.coverage import agreement


def test_counts_and_scores() -> None:
    found = agreement(
        [
            ("a cat sit", "a cat sits", "a cat sits"),
            ("a dog run home", "the dog runs home", "a dog runs home"),
            ("he are here", "he are here", "he is here"),
            ("all is well", "all is well", "all is well"),
        ]
    )
    assert (found.sentences, found.exact) == (4, 2)
    assert (found.reference, found.predicted, found.correct) == (3, 3, 2)
    assert found.scores["exact"] == 50
    assert found.scores["precision"] == found.scores["recall"] == pytest.approx(200 / 3)
    assert found.scores["f0.5"] == pytest.approx(200 / 3)


def test_precision_counts_twice_as_much_as_recall() -> None:
    found = agreement([("a b c d", "A b c d", "A B C D")])
    assert found.scores["f0.5"] == pytest.approx(100 * 1.25 / (1 + 0.25 * 4))


def test_no_edits_in_prediction_and_reference_are_correct() -> None:
    assert agreement([("a", "a", "a")]).scores["f0.5"] == 100
    assert agreement([("a", "b", "a")]).scores["f0.5"] == 0
