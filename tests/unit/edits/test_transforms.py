"""Transforms: table 10, groups, spared words, possible transforms, and files of suffixes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits import EditDictionaryConfig, apply, build_dictionary, extract
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.labels import Label, parse_label
from fairseq_ssl.edits.transforms import (
    GROUPS,
    SuffixTransform,
    Transform,
    Transforms,
    english_suffixes,
    read_suffixes,
)
from fairseq_ssl.errors import DataError

ENGLISH = Transforms.of(english_suffixes(), groups=("case",))
ALL = Transforms.of(english_suffixes(), GROUPS)

TABLE_10 = """
play plays - s
argue argued - d
express expresses - es
play playing - ing
play played - ed
nice nicely - ly
play player - er
renew renewal - al
rise risen - n
health healthy - y
inform information - ation
use using e ing
spend spent d t
compared compares d s
claims claiming s ing
known knowing n ing
visits visited s ed
using used ing ed
creating creation ing ion
adoring adoration ing ation
reluctant reluctance t ce
homeopathy homeopathic y ic
meant means t s
arrive arrival e al
angry angrily y ily
copy copied y ied
biology biological y ical
family families y ies
"""
"""Words, and the suffixes exchanged. Two of the paper's examples are none: deafening is deafen
with ing, and insistent for insistence is t for ce, so the authors' code never has t for nce."""


def matched(transforms: Transforms, word: str, other: str) -> Transform | None:
    number = transforms.match(word, other)
    return None if number is None else transforms.table[number]


@pytest.mark.parametrize("row", TABLE_10.strip().splitlines())
def test_table_10(row: str) -> None:
    word, other, off, on = row.replace(" - ", "  ").split(" ")
    assert matched(ENGLISH, word, other) == SuffixTransform(off, on)
    assert matched(ENGLISH, other, word) == SuffixTransform(on, off)


def test_number_of_transforms() -> None:
    assert len(set(ENGLISH.table)) == 58 + 5
    assert len(Transforms.of(english_suffixes()).table) == 58
    assert Transforms.of([]) == Transforms()
    assert SuffixTransform("nce", "t") in ENGLISH.table


MATCHES = """
deafen deafening SUFFIX_+ing
insistence insistent SUFFIX_-ce+t
passed passing SUFFIX_-ed+ing
He he CASE_lower
i I CASE_capital
paris Paris CASE_capital
usa USA CASE_upper
ma mas SUFFIX_+s
"""
NO_MATCHES = "USA Usa, goes goings, s ing, play play, Plays play, a an, as a, Is I, in i, m my"
"""Several changes, no stem, or two words that are not two forms of a word."""


def test_matches_of_examples() -> None:
    for row in MATCHES.strip().splitlines():
        word, other, name = row.split()
        found = matched(ENGLISH, word, other)
        assert str(Label(False, transform=found)) == name
    for pair in NO_MATCHES.split(", "):
        word, other = pair.split()
        assert matched(ENGLISH, word, other) is None
    assert matched(ENGLISH, "", "s") is None


words = st.text("sedingtyaAS", max_size=7)


@given(word=words | st.sampled_from(["-", "well-known", "cat's", "12", "go", "child"]))
def test_the_first_transform_that_makes_a_change_is_matched(word: str) -> None:
    """Compare with calling each transform. Merges depend on the next word."""
    first: dict[str, int] = {}
    for number, transform in enumerate(ALL.table):
        changed = None if word in ALL.spared[number] else transform(word)
        if changed and changed != word:
            first.setdefault(changed, number)
    assert {changed: ALL.match(word, changed) for changed in first} == first


def test_transform_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairseq_ssl.edits.transforms.MAX_WORDS", 2)
    transforms = Transforms.of([("x", "y", [])])
    pairs = (("ax", "ay"), ("bx", "by"), ("c", "cy"), ("ax", "ay"), ("cy", "cx"))
    assert [transforms.match(*pair) for pair in pairs] == [0, 0, None, 0, 1]


def test_suffixes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "suffixes"
    path.write_text("- s  ma mi\n\n  iä ien\t \n- ##s\n", encoding="utf-8")
    pairs = read_suffixes(path)
    assert pairs == [("", "s", ["ma", "mi"]), ("iä", "ien", []), ("", "##s", [])]
    transforms = Transforms.of(pairs)
    assert matched(transforms, "talojien", "talojiä") == SuffixTransform("ien", "iä")
    assert matched(transforms, "mas", "ma") is None


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        *(("- s\ning\n", "suffixes:2"), ("- -\n", "suffixes:1"), ("e e\n", "suffixes:1")),
        *(("e ing use bed\n", "'bed'"), ("e ing\n- s\ning e\n", "suffixes:3"), ("\n", "suffixes")),
    ],
)
def test_wrong_suffixes_are_named(content: str, culprit: str, tmp_path: Path) -> None:
    path = tmp_path / "suffixes"
    path.write_text(content)
    with pytest.raises(DataError, match=culprit):
        read_suffixes(path)


EVERY = EditDictionary.of_counts({}, 0, 2, Transforms.of(english_suffixes(), GROUPS))

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
    assert extract(word, other, EVERY) == ["KEEP", name]
    assert apply(word, ["KEEP", name]) == other


GECTOR_CHANGES = """
mcDonald CASE_capitalize Mcdonald
iPHONE CASE_capitalize_second iPhone
dvds CASE_upper_start DVDs
DVDS CASE_upper_start -
boss NUMBER_cut bos
a NUMBER_cut -
go VERB_VB_VBZ goes
goes VERB_VB_VBZ -
went VERB_VBD_VBN gone
was VERB_VBD_VB be
cat VERB_VBZ_VB -
the UNKNOWN_label -
"""


@pytest.mark.parametrize("row", GECTOR_CHANGES.strip().splitlines())
def test_functions_of_gector_labels(row: str) -> None:
    word, name, changed = row.split()
    transform = parse_label(name).transform
    assert transform is not None
    assert transform(word) == (None if changed == "-" else changed)
    assert name not in EVERY.names


APPLIED = """
child SUFFIX_+s children childs
Try SUFFIX_+s Tries Trys
go SUFFIX_+es goes goes
wants SUFFIX_-s+ing wanting wanting
wants SUFFIX_+d wanted wantsd
go SUFFIX_+ed went goed
activities SUFFIX_-s activity activitie
studied SUFFIX_-ed study studi
run SUFFIX_+ing running runing
zorg SUFFIX_+s zorgs zorgs
child SUFFIX_+al childal childal
a SUFFIX_+s - -
go VERB_VBD went -
"""


@pytest.mark.parametrize("row", APPLIED.strip().splitlines())
def test_suffixes_make_known_words(row: str) -> None:
    """The last column has the words of a table without the forms of nouns and verbs."""
    word, name, *expected = row.split()
    suffixes = EditDictionary.of_counts({}, 0, 2, Transforms.of(english_suffixes()))
    for dictionary, changed in zip([EVERY, suffixes], expected, strict=True):
        if name in dictionary.names:
            number = dictionary.names.index(name) - dictionary.first_transform
            assert (dictionary.transforms.apply(number, word) or "-") == changed


def test_labels_of_irregular_forms_are_not_those_of_suffixes() -> None:
    assert extract("child", "children", EVERY) == ["KEEP", "NUMBER_plural"]
    assert extract("child", "childs", EVERY) == ["KEEP", "SUFFIX_+s"]


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
    assert extract(source, target, EVERY) == labels.split()
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
            labels = extract(source, target, EVERY)
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
    assert build_dictionary(pairs, EditDictionaryConfig(groups=GROUPS)).appends == (("the",),)
    without = build_dictionary(pairs).appends
    assert {("went",), ("everyone",), ("well",)} < set(without)
