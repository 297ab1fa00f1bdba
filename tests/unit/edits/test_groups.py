"""Groups of transforms: case, merge, split, verb and number."""

from __future__ import annotations

import pytest

from fairseq_ssl.edits import apply, build_dictionary, extract
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import (
    GROUPS,
    Transforms,
    english_suffixes,
)

ALL = EditDictionary.of_counts({}, 0, 2, Transforms.of(english_suffixes(), GROUPS))

CHANGES = """
paris Paris CASE_capital
He he CASE_lower
usa USA CASE_upper
iphone iPhone CASE_second
dvds DVDs CASE_plural
went gone VERB_VBN
go went VERB_VBD
Go Went VERB_VBD
stop stopping VERB_VBG
play played VERB_VBD
went go VERB_VB
have has VERB_VBZ
was were VERB_VBD
play plays SUFFIX_+s
book books SUFFIX_+s
study studies SUFFIX_-y+ies
plays play SUFFIX_-s
child children NUMBER_plural
men man NUMBER_singular
nice nicely SUFFIX_+ly
"""


@pytest.mark.parametrize("row", CHANGES.strip().splitlines())
def test_change_of_a_word(row: str) -> None:
    word, other, name = row.split()
    assert extract(word, other, ALL) == ["KEEP", name]
    assert apply(word, ["KEEP", name]) == other


SENTENCES = """
every one is here | everyone is here | KEEP MERGE_space KEEP KEEP KEEP
a well known man | a well-known man | KEEP KEEP MERGE_hyphen KEEP KEEP
what it is | what is it | KEEP KEEP MERGE_swap KEEP
always I go | I always go | KEEP MERGE_swap KEEP KEEP
a state-of-the-art car | a state of the art car | KEEP KEEP SPLIT_hyphen KEEP
a well-known man | a well known man | KEEP KEEP SPLIT_hyphen KEEP
a-bbb-cc e-mail | a bbb cc e mail | KEEP SPLIT_hyphen SPLIT_hyphen
bad self-esteem | self esteem | KEEP DELETE SPLIT_hyphen
any one knows every body | anyone knows everybody | KEEP MERGE_space KEEP KEEP MERGE_space KEEP
aa bb | bb aa | KEEP MERGE_swap KEEP
a bbb c | bbb a c | KEEP MERGE_swap KEEP KEEP
"""


@pytest.mark.parametrize("row", SENTENCES.strip().splitlines())
def test_merges_and_splits(row: str) -> None:
    source, target, labels = (part.strip() for part in row.split("|"))
    assert extract(source, target, ALL) == labels.split()
    assert apply(source, labels.split()) == target


def test_merges_that_are_not_in_the_dictionary() -> None:
    content = EditDictionary((), (), 2, Transforms()).text().splitlines()
    dictionary = EditDictionary.parse([*content, "transform MERGE_space"], "edits.txt")
    labels = [*["KEEP"] * 4, "MERGE_space", "KEEP"]
    assert extract("b a x in to", "a b x into", dictionary) == labels


def test_swaps_are_found_for_all_alignments() -> None:
    """The alignment of a swap depends on the lengths of the words."""
    words = ["a", "bb", "ccc", "dddd", "e"]
    for first in words:
        for second in words:
            source, target = f"x {first} {second} y", f"x {second} {first} y"
            labels = extract(source, target, ALL)
            assert apply(source, labels) == target
            assert first == second or labels[2] == "MERGE_swap"
    assert extract("a b", "b a", EditDictionary((), (), 1, Transforms())) == ["KEEP"] * 3


def test_a_match_is_the_first_transform_that_makes_the_word() -> None:
    transforms = Transforms.of([("", "s", ["play"]), *english_suffixes()], GROUPS)
    words = ["play", "plays", "Play", "usa", "USA", "went", "gone", "well-known", "well known"]
    for word in words * 2:  # the second time from the cache
        for other in words:
            fitting = [
                number
                for number, (transform, spared) in enumerate(
                    zip(transforms.table, transforms.spared, strict=True)
                )
                if transform.kind != "merge" and word not in spared and transform(word) == other
            ]
            assert transforms.match(word, other) == min(fitting, default=None), (word, other)


def test_edits_of_transforms_take_no_q_grams() -> None:
    pairs = [("he go home", "he went home"), ("every one is here", "everyone is the here")]
    pairs.append(("a well-known man", "a well known man"))
    assert build_dictionary(pairs, groups=GROUPS).grams == (("the",),)
    without = build_dictionary(pairs).grams
    assert {("went",), ("everyone",), ("well",)} < set(without)
