"""Coverage of examples by a dictionary, and agreement of edits with a reference."""

from __future__ import annotations

import pytest

from fairseq_ssl.edits.coverage import Coverage, agreement
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import LabelExtractor
from fairseq_ssl.edits.transforms import Transforms

EDITS = EditDictionary.of_counts(
    {("the",): 2, ("at",): 1}, 10, 2, Transforms.of([("", "s", [])], groups=("case",))
)
PAIRS = [
    ("a b", "a b"),
    ("he play in park", "He plays at the park"),  # case, suffix, and an unlisted insertion
    ("x look park y", "look the park"),  # delete, append, delete
    ("it in", "it at"),  # replace
    ("a", "a b c d"),  # too long
    ("a", "b ccc ddd"),  # too long
    ("a", "a b"),  # not listed
]


def covered(pairs: list[tuple[str, str]]) -> Coverage:
    coverage = Coverage()
    for source, target in pairs:
        coverage.add(EDITS, LabelExtractor(EDITS)(source.split(), target.split()))
    return coverage


def test_counts_of_examples() -> None:
    coverage = covered(PAIRS)
    assert (coverage.pairs, coverage.unchanged, coverage.exact) == (7, 1, 3)
    assert coverage.tokens == 3 + 5 + 5 + 3 + 2 + 2 + 2
    assert coverage.kept == {"case": 1, "suffix": 1, "delete": 2, "append": 1, "replace": 1}
    assert coverage.lost == {
        "replace, not listed": 1,
        "append, too long": 1,
        "replace, too long": 1,
        "append, not listed": 1,
    }
    assert coverage.edits == 10
    assert coverage.recall == 0.6
    assert coverage.f05 == pytest.approx(1.25 * 1 * 0.6 / (0.25 * 1 + 0.6))
    assert coverage.token_accuracy == 18 / 22


def test_parts_add_up() -> None:
    coverage = Coverage.of(covered(PAIRS[:3]).counts() + covered(PAIRS[3:]).counts())
    coverage.add(EDITS, None)
    whole = covered(PAIRS)
    assert coverage.report() == {
        **whole.report(),
        "pairs": 8,
        "incomparable_pairs": 1,
        "exact_share": 3 / 8,
    }


def test_equal_pairs_have_perfect_scores() -> None:
    coverage = covered([("a", "a")])
    assert (coverage.recall, coverage.f05, coverage.token_accuracy) == (1, 1, 1)
    assert "without label   none" in coverage.lines()
    assert Coverage().report()["f0.5"] == 1


def test_agreement_of_predictions_with_references() -> None:
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
    found = agreement([("a b c d", "A b c d", "A B C D")])
    assert found.scores["f0.5"] == pytest.approx(100 * 1.25 * 0.25 / (0.25 + 0.25))
    assert agreement([("a", "a", "a")]).scores["f0.5"] == 100, "no edits in both"
    assert agreement([("a", "b", "a")]).scores["f0.5"] == 0
