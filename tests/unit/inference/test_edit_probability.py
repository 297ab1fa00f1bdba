"""The probability of an edit is that of the model's edits that made it."""

from __future__ import annotations

import pytest

from fairseq_ssl.edits.alignment import token_edits
from fairseq_ssl.edits.rounds import AppliedEdit
from fairseq_ssl.inference import correction
from fairseq_ssl.inference.correction import change_probabilities
from fairseq_ssl.text.raw_text import LineSegmenter, Sentence, TokenEdit


def test_later_edits_of_an_insertion_change_its_probability() -> None:
    sentence = Sentence(["He", "home"], [0, 3])
    rounds = [
        AppliedEdit(1, 1, "APPEND_go", 0.9, 1, is_inserted=True),
        AppliedEdit(2, 1, "REPLACE_She", 0.3, 1, is_inserted=False),
        AppliedEdit(2, 2, "REPLACE_goes", 0.4, 1, is_inserted=True),
    ]
    changes = [TokenEdit(0, 1, ("She",)), TokenEdit(1, 1, ("goes",))]
    found = change_probabilities(sentence.tokens, sentence.tokens, changes, rounds)
    assert found == [0.3, 0.4]
    edit = correction._edit("He home", sentence, changes[1], None, found[1])
    assert edit == correction.Edit(2, 2, "", "goes", 0.4)


@pytest.mark.parametrize(
    ("line", "corrected", "made"),
    [
        ("I saw the the man who go", "I saw the man who goes", (4, "DELETE", 4, False, None)),
        ("I saw the the man who go", "I saw the man who goes", (3, "DELETE", 3, False, None)),
        ("a b a b a go", "a b a goes", (5, "DELETE", 5, False, None)),
        ("I know that man go", "I know that that man goes", (3, "APPEND_that", 3, True, None)),
        ("I know that man go", "I know that that man goes", (2, "APPEND_that", 2, True, None)),
        ("What you do if it go", "What do you if it goes", (2, "MERGE_swap", 2, False, 3)),
    ],
)
def test_duplicate_and_swapped_words(
    line: str, corrected: str, made: tuple[int, str, int, bool, int | None]
) -> None:
    """The place of a deleted duplicate is that of token_edits, not that of the model."""
    (sentence,) = LineSegmenter.of(None)(line)
    position, label, origin, is_inserted, next_origin = made
    last = len(sentence.tokens)
    applied = [
        AppliedEdit(1, position, label, 0.99, origin, is_inserted, next_origin),
        AppliedEdit(1, last, "REPLACE_goes", 0.51, last, is_inserted=False),
    ]
    changes = token_edits(sentence.tokens, corrected.split())
    *others, goes = change_probabilities(sentence.tokens, sentence.tokens, changes, applied)
    assert set(others) == {0.99}
    assert goes == 0.51


def test_duplicates_that_an_earlier_round_or_spelling_makes() -> None:
    source, corrected = ["see", "the", "a", "cat"], ["see", "the", "cat"]
    changes = token_edits(source, corrected)
    rounds = [
        AppliedEdit(1, 3, "REPLACE_the", 0.9, 3, is_inserted=False),
        AppliedEdit(2, 2, "DELETE", 0.6, 2, is_inserted=False),
    ]
    assert change_probabilities(source, source, changes, rounds) == [0.6]
    source, spelled = ["see", "the", "teh", "cat"], ["see", "the", "the", "cat"]
    deletion = [AppliedEdit(1, 2, "DELETE", 0.31, 2, is_inserted=False)]
    changes = token_edits(source, corrected)
    assert change_probabilities(source, spelled, changes, deletion) == [0.31]
    assert change_probabilities(source, spelled, token_edits(source, spelled), []) == [1.0]


def test_tabs_of_the_text_do_not_add_columns() -> None:
    edit = correction.Edit(2, 9, "go\tto", "went to", 0.9, "R:OTHER")
    assert correction._explanation(edit) == "\t2:9\tgo to\twent to\tR:OTHER\t0.900"
