"""Extraction, application and votes: tables 1 and 9, figure 1, and properties."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits import vote
from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import LabelExtractor, apply_labels
from fairseq_ssl.edits.labels import parse_label
from fairseq_ssl.edits.transforms import GROUPS, Transforms, english_suffixes
from fairseq_ssl.errors import DataError, UsageError
from tests.unit.edits.plain_edits import figure_1, is_possible, plain_diff, table

GRAMS = [("could",), ("the",), ("However", ","), (".",), ("Then", ","), ("he",), ("of", "the")]
ENGLISH = Transforms.of(english_suffixes(), groups=("case",))


def dictionary(grams: list[tuple[str, ...]], transforms: Transforms = ENGLISH) -> EditDictionary:
    return EditDictionary.of_counts(Counter(grams), 1000, 2, transforms)


def labeled(source: str, target: str, known: EditDictionary) -> str:
    found = LabelExtractor(known)(source.split(), target.split())
    assert found is not None
    return " ".join(known.names[label] for label in found.ids)


EXAMPLES = """
# table 1
Bolt can have run race | Bolt could have run the race | KEEP KEEP REPLACE_could KEEP APPEND_the KEEP
He still won race ! | However , he still won ! | APPEND_However_, CASE_lower KEEP KEEP DELETE KEEP
# table 9
He sat , then he ran | He sat . Then , he ran | KEEP KEEP KEEP REPLACE_. REPLACE_Then_, KEEP KEEP
# a transform is preferred to a replacement
He play the | he plays the | KEEP CASE_lower SUFFIX_+s KEEP
# a single word piece that is a suffix, after a word
he play | he play ##s | KEEP KEEP SUFFIX_+s
play ##ing | play ##ing ##s | KEEP KEEP SUFFIX_+s
he a play | he a ##s play ##s the | KEEP KEEP KEEP KEEP
x | ##s x ##zz | KEEP KEEP
# edits that are not in the dictionary are ignored, including their deletions
I saw in | I look at | KEEP KEEP KEEP KEEP
I saw a dog | I of the the saw dog | KEEP KEEP KEEP DELETE KEEP
x | of the the | KEEP KEEP
|| KEEP
| the | APPEND_the
the the || KEEP DELETE DELETE
"""


@pytest.mark.parametrize("row", table(EXAMPLES))
def test_labels_of_examples(row: str) -> None:
    source, target, expected = row.split("|")
    assert labeled(source, target, dictionary(GRAMS)).split() == expected.split()


def test_labels_of_a_copied_dictionary_are_applied() -> None:
    source, target = ["go", "home", "now"], ["gohome", "now"]
    known = dictionary([], Transforms.of([], groups=["merge"]))
    assert known.labels
    copied = copy.deepcopy(known)
    found = LabelExtractor(copied)(source, target)
    assert found is not None
    labels = [copied.labels[label] for label in found.ids]
    assert apply_labels(source, labels) == target


WORDS = ("play", "plays", "played", "Play", "a", "an", "the", "The", "use", "using", "x_%", "Ⅷ")
words = st.lists(st.sampled_from(WORDS), max_size=10)
any_tokens = st.lists(st.text("abs%_ST\u00a0", min_size=1, max_size=4), max_size=8)
known = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(tuple), max_size=9)


@given(source=words, target=words, grams=known)
def test_labels_equal_those_of_figure_1(
    source: list[str], target: list[str], grams: list[tuple[str, ...]]
) -> None:
    edits = dictionary(grams, Transforms.of([("", "s", ["a"]), ("e", "ing", [])]))

    def transformed(word: str, other: str) -> str | None:
        fits = {"SUFFIX_+s": word + "s" == other, "SUFFIX_-s": word == other + "s"}
        fits["SUFFIX_-e+ing"] = (word, other) == ("use", "using")
        fits["SUFFIX_-ing+e"] = (word, other) == ("using", "use")
        return next((name for name, fit in fits.items() if fit), None)

    expected = figure_1(plain_diff(source, target), set(map(" ".join, grams)), transformed)
    found = LabelExtractor(edits)(source, target)
    assert found is not None
    names = [edits.names[label].replace("%5F", "_").replace("%25", "%") for label in found.ids]
    assert names == expected


@given(
    source=any_tokens | words,
    target=any_tokens | words,
    groups=st.sampled_from([(), ("case",), GROUPS]),
)
def test_applied_labels_restore_the_target(
    source: list[str], target: list[str], groups: tuple[str, ...]
) -> None:
    """No edit is lost if the dictionary has all insertions."""
    insertions = [
        change.inserted for change in align_tokens(source, target) or () if change.inserted
    ]
    edits = EditDictionary.of_counts(
        Counter(insertions), 1000, 99, Transforms.of(english_suffixes(), groups)
    )
    found = LabelExtractor(edits)(source, target)
    assert found is not None
    assert not found.lost
    assert apply_labels(source, [edits.labels[label] for label in found.ids]) == target
    assert apply_labels(source, [parse_label(edits.names[label]) for label in found.ids]) == target
    for label, token in zip(found.ids, (None, *source), strict=True):
        assert is_possible(edits, label, token)


@given(source=words, target=words, grams=known)
def test_applied_labels_make_all_edits_except_lost_ones(
    source: list[str], target: list[str], grams: list[tuple[str, ...]]
) -> None:
    edits = dictionary(grams)
    found = LabelExtractor(edits)(source, target)
    assert found is not None
    lost = {change.position for change in found.lost}
    expected: list[str] = []
    by_place = {change.position: change for change in found.changes if change.position not in lost}
    for place, token in enumerate(["", *source]):
        change = by_place.get(place)
        expected += [token] if place and (change is None or change.kept) else []
        expected += change.inserted if change else ()
    assert apply_labels(source, [edits.labels[label] for label in found.ids]) == expected
    assert (expected == target) or lost


@pytest.mark.parametrize(
    ("source", "names", "culprit"),
    [
        ("a b", "KEEP KEEP", "2 labels for 2 tokens"),
        ("", "", "0 labels"),
        ("a", "DELETE KEEP", "DELETE"),
        ("a", "CASE_upper KEEP", "CASE_upper"),
        ("play", "KEEP SUFFIX_-s", "'play'"),
        ("s", "KEEP SUFFIX_-s", "'s'"),
        ("I", "KEEP CASE_upper", "'I'"),
        ("a b", "KEEP KEEP MERGE_space", "'b'"),
        ("a b", "KEEP MERGE_swap DELETE", "'a'"),
        ("a b", "KEEP SPLIT_hyphen KEEP", "'a'"),
    ],
)
def test_labels_that_cannot_be_applied_are_named(source: str, names: str, culprit: str) -> None:
    with pytest.raises(DataError, match=culprit):
        apply_labels(source.split(), [parse_label(name) for name in names.split()])


SOURCE = "he go to school yesterday with his friend"
CORRECTIONS = (
    "he went to school yesterday with his friends",  # go -> went, friend -> friends
    "He went to the school yesterday with his friend .",  # he, go, + the, + .
    "he goes to school with his friends .",  # go -> goes, - yesterday, friends, + .
)


@pytest.mark.parametrize(
    ("min_votes", "expected"),
    [
        # the replacement of friend by the first and "friends ." by the third are different edits
        (1, "He went to the school with his friends"),
        (2, "he went to school yesterday with his friend"),
        (3, SOURCE),
        (None, "he went to school yesterday with his friend"),
    ],
)
def test_edits_with_enough_votes_are_applied(min_votes: int | None, expected: str) -> None:
    assert vote(SOURCE, CORRECTIONS, min_votes) == expected


def test_edit_with_the_most_votes_is_applied() -> None:
    assert vote("a b", ["a x", "a y", "a y"], 1) == "a y"
    assert vote("a b", ["a x", "a y"], 1) == "a x"
    systems = ["x a b c d e", "x a b c d", "a b c d"]
    assert vote("a b c d e", systems, 2) == "x a b c d"


def test_equal_edits_at_the_start_and_in_empty_sentences() -> None:
    assert vote("", ["x y", "x y"]) == "x y"
    assert vote("a", ["", ""]) == ""
    assert vote("  a   b ", ["a b"]) == "a b"


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")), st.integers(1, 3))
def test_unanimous_corrections_are_the_result(
    source: list[str], target: list[str], systems: int
) -> None:
    assert vote(" ".join(source), [" ".join(target)] * systems, systems) == " ".join(target)


def test_corrections_that_cannot_be_aligned_have_no_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairseq_ssl.edits.extraction.align_tokens", lambda *sides: None)
    assert vote("a b", ["a c"], 1) == "a b"


@pytest.mark.parametrize(("systems", "min_votes"), [(2, 3), (2, 0), (0, None)])
def test_impossible_number_of_votes_is_rejected(systems: int, min_votes: int | None) -> None:
    with pytest.raises(UsageError, match=f"{systems} corrections"):
        vote("a", ["a"] * systems, min_votes)
