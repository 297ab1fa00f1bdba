"""Names of labels: without spaces, with exact round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits.labels import DELETE, KEEP, Label, parse_label
from fairseq_ssl.edits.transforms import (
    WORD_FUNCTIONS,
    MergeTransform,
    SuffixTransform,
    WordTransform,
)
from fairseq_ssl.errors import DataError

NAMES = {
    "KEEP": KEEP,
    "DELETE": DELETE,
    "APPEND_the": Label(True, ("the",)),
    "REPLACE_of_the": Label(False, ("of", "the")),
    "REPLACE_a%5Fb_100%25": Label(False, ("a_b", "100%")),
    "APPEND_naïve_+-": Label(True, ("naïve", "+-")),
    "APPEND_%20_%E2%80%A8x": Label(True, (" ", "\u2028x")),
    "SUFFIX_+s": Label(False, transform=SuffixTransform("", "s")),
    "SUFFIX_-s": Label(False, transform=SuffixTransform("s", "")),
    "SUFFIX_-e+ing": Label(False, transform=SuffixTransform("e", "ing")),
    "SUFFIX_+%2Ds": Label(False, transform=SuffixTransform("", "-s")),
    "SUFFIX_-%2B+_": Label(False, transform=SuffixTransform("+", "_")),
    "CASE_capital": Label(False, transform=WordTransform("case", "capital")),
    "VERB_VBZ": Label(False, transform=WordTransform("verb", "VBZ")),
    "NUMBER_plural": Label(False, transform=WordTransform("number", "plural")),
    "VERB_VB_VBZ": Label(False, transform=WordTransform("verb", "VB_VBZ")),
    "UNKNOWN_label": Label(False, transform=WordTransform("unknown", "label")),
    "SPLIT_hyphen": Label(False, transform=WordTransform("split", "hyphen")),
    "MERGE_swap": Label(False, transform=MergeTransform("swap")),
}
WORD_TRANSFORMS = [
    WordTransform(kind, argument)
    for kind, functions in WORD_FUNCTIONS.items()
    for argument in functions
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_examples(name: str) -> None:
    assert str(NAMES[name]) == name
    assert parse_label(name) == NAMES[name]


tokens = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from("_%+- ")
suffixes = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["+", "-", "-+", "%"]
)
labels = (
    st.builds(Label, st.booleans(), st.lists(tokens).map(tuple))
    | st.builds(SuffixTransform, suffixes, suffixes)
    .filter(lambda one: one.off != one.on)
    .map(lambda one: Label(False, transform=one))
    | st.sampled_from(WORD_TRANSFORMS).map(lambda one: Label(False, transform=one))
)


@given(label=labels)
def test_names_have_no_spaces_and_round_trip(label: Label) -> None:
    assert str(label).split() == [str(label)]
    assert parse_label(str(label)) == label


@pytest.mark.parametrize(
    "name",
    [
        *("KEPT", "keep", "APPEND", "APPEND_", "KEEP_a", "APPEND_a__b", "APPEND_100%"),
        *("REPLACE_%5f", "REPLACE_%FF", "REPLACE_%61", "SUFFIX_s", "SUFFIX_-s+s"),
        *("SUFFIX_+ing-e", "SUFFIX_+", "SUFFIX_-%FF", "CASE_lowr", "MERGE_join", "VERB_VBX"),
    ],
)
def test_wrong_names_are_rejected(name: str) -> None:
    with pytest.raises(DataError):
        parse_label(name)
