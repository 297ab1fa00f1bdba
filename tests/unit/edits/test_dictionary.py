"""Edit dictionaries: selection of labels, ids, round trips of files, and invalid files."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.labels import Gram
from fairseq_ssl.edits.transforms import Transforms, WordTransform, english_suffixes
from fairseq_ssl.errors import DataError
from tests.unit.edits.plain_edits import possible_transforms

FEW = Transforms.of([("", "s", ["a"]), ("e", "ing", [])], groups=("case",))
COUNTS = Counter({("the",): 5, ("b",): 2, ("a", "z"): 2, ("a",): 2, ("c",): 1})
NAMES = """
KEEP DELETE APPEND_the APPEND_a APPEND_a_z REPLACE_the REPLACE_a REPLACE_a_z
SUFFIX_+s SUFFIX_-s SUFFIX_-e+ing SUFFIX_-ing+e
CASE_lower CASE_capital CASE_upper CASE_second CASE_plural
"""
SMALL = EditDictionary.of_counts(COUNTS, 3, 2, FEW)


def test_most_frequent_grams_are_kept_with_ties_in_alphabetical_order() -> None:
    assert SMALL.appends == SMALL.replaces == (("the",), ("a",), ("a", "z"))
    assert SMALL.counts == (5, 2, 2)
    shuffled = Counter(dict(sorted(COUNTS.items(), reverse=True)))
    assert EditDictionary.of_counts(shuffled, 3, 2, FEW) == SMALL
    assert len(EditDictionary.of_counts(COUNTS, 100, 2, FEW).appends) == 5
    assert EditDictionary.of_counts(COUNTS, 0, 2, Transforms()).names == ("KEEP", "DELETE")


def test_labels_and_their_ids() -> None:
    names = NAMES.split()
    assert list(SMALL.names) == names == list(map(str, SMALL.labels))
    assert [SMALL.names.index(name) for name in names] == list(range(17))
    assert SMALL.names[SMALL.append_ids["a", "z"]] == "APPEND_a_z"
    assert SMALL.names[SMALL.replace_ids["a", "z"]] == "REPLACE_a_z"
    assert SMALL.names[SMALL.first_transform] == "SUFFIX_+s"
    assert SMALL.kinds[:3] == ("keep", "delete", "append")
    assert SMALL.kinds[-6:] == ("suffix", *("case",) * 5)


def test_number_of_labels_is_that_of_the_paper() -> None:
    counts: dict[Gram, int] = {(f"w{n}",): 1 for n in range(2000)}
    paper = EditDictionary.of_counts(counts, 1000, 2, Transforms.of(english_suffixes()))
    assert len(paper.labels) == 2 + 1000 + 1000 + 58


def possible_names(dictionary: EditDictionary, token: str) -> list[str]:
    """Return the names of the transforms that can change a token."""
    names = dictionary.names[dictionary.first_transform :]
    return [names[number] for number in possible_transforms(dictionary.transforms, token)]


def test_possible_transforms() -> None:
    names = partial(possible_names, SMALL)

    upper = ["CASE_upper", "CASE_second", "CASE_plural"]
    assert names("use") == ["SUFFIX_+s", "SUFFIX_-e+ing", "CASE_capital", *upper]
    assert names("a") == ["CASE_capital", "CASE_upper"]
    assert names("AS") == ["SUFFIX_+s", "CASE_lower", "CASE_plural"]
    assert names("as") == ["SUFFIX_+s", "CASE_capital", *upper]
    assert names("is") == ["SUFFIX_+s", "SUFFIX_-s", "CASE_capital", *upper]
    assert names("1") == ["SUFFIX_+s"]


def test_write_and_read_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "edits.txt"
    SMALL.write(path)
    assert path.read_text() == (
        "fairseq-ssl edit dictionary, form 1\n"
        "longest 2\n"
        "gram the 5\n"
        "gram a 2\n"
        "gram a_z 2\n"
        "transform SUFFIX_+s a\n"
        "transform SUFFIX_-s as\n"
        "transform SUFFIX_-e+ing\n"
        "transform SUFFIX_-ing+e\n"
        "transform CASE_lower\n"
        "transform CASE_capital\n"
        "transform CASE_upper\n"
        "transform CASE_second\n"
        "transform CASE_plural\n"
    )
    assert EditDictionary.read(path) == SMALL
    assert [*path.parent.iterdir()] == [path]


tokens = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
grams = st.lists(tokens, min_size=1, max_size=3).map(tuple)


FORMS = {"VB_VBZ": {"go": "goes", "re do": "100%_s"}, "VBZ_VB": {}}
GECTOR = EditDictionary(
    appends=(("the",), (",",)),
    replaces=(("the",), ("is",), ("a_b",)),
    max_ngram=1,
    transforms=Transforms(
        (
            WordTransform("case", "capitalize"),
            *(WordTransform("verb", name, forms) for name, forms in FORMS.items()),
            WordTransform("verb", "VB_VBD"),
            WordTransform("unknown", "label"),
        ),
        (frozenset(),) * 5,
    ),
    greedy=True,
)
GECTOR_FILE = """\
fairseq-ssl edit dictionary, form 1
longest 1
greedy
append the
append ,
replace the
replace is
replace a%5Fb
transform CASE_capitalize
transform VERB_VB_VBZ
forms VERB_VB_VBZ go goes re%20do 100%25_s
transform VERB_VBZ_VB
forms VERB_VBZ_VB
transform VERB_VB_VBD
transform UNKNOWN_label
"""


def test_unequal_tables_and_verb_forms_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "edits.txt"
    GECTOR.write(path)
    assert path.read_text() == GECTOR_FILE
    read = EditDictionary.read(path)
    assert read == GECTOR
    assert hash(read) == hash(GECTOR)
    assert pickle.loads(pickle.dumps(GECTOR)) == GECTOR
    assert read.names[2:7] == (
        "APPEND_the",
        "APPEND_,",
        "REPLACE_the",
        "REPLACE_is",
        "REPLACE_a%5Fb",
    )
    assert [read.names[id_] for id_ in (read.append_ids[",",], read.replace_ids["is",])] == [
        "APPEND_,",
        "REPLACE_is",
    ]
    other = EditDictionary.parse(GECTOR_FILE.replace("goes", "went").splitlines(), "edits.txt")
    assert other != GECTOR
    assert other.fingerprint != GECTOR.fingerprint
    assert replace(GECTOR, greedy=False) != GECTOR


def test_transforms_with_verb_forms_change_the_words_of_the_table() -> None:
    words = ["go", "Go", "walk", "re do"]
    assert [possible_names(GECTOR, word) for word in words] == [
        ["CASE_capitalize", "VERB_VB_VBZ", "VERB_VB_VBD"],
        ["VERB_VB_VBD"],
        ["CASE_capitalize", "VERB_VB_VBD"],
        ["CASE_capitalize", "VERB_VB_VBZ"],
    ]
    label = GECTOR.labels[GECTOR.names.index("VERB_VB_VBZ")]
    assert label.edited("go") == ["goes"]


@given(counts=st.dictionaries(grams, st.integers(0, 10**15 - 1)), spared=st.lists(tokens))
def test_generated_dictionaries_round_trip(
    counts: dict[tuple[str, ...], int],
    spared: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("edits") / "edits.gz"
    transforms = Transforms.of([("", "s", spared), ("-+%", "_ ", [])], groups=("case",))
    built = EditDictionary.of_counts(counts, 1000, 3, transforms)
    built.write(path)
    read = EditDictionary.read(path)
    assert read == built
    assert read.names == built.names
    assert read.fingerprint == built.fingerprint


def test_fingerprints_of_different_dictionaries_differ() -> None:
    other = EditDictionary.of_counts(COUNTS, 3, 2, Transforms())
    assert len({SMALL.fingerprint, other.fingerprint}) == 2


HEADER = "fairseq-ssl edit dictionary, form 1"


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        (["longest two"], ":2"),
        (["longest 0"], ":2"),
        (["gram a 1"], ":2"),
        (["longest 2", "longest 2"], ":3"),
        *((["longest 2", gram], ":3") for gram in ("gram a -1", "gram a 1e3", "gram a", "")),
        *((["longest 2", gram], ":3") for gram in ("gram of the 4", "gram a% 4")),
        *((["longest 2", f"transform {name}"], ":3") for name in ("KEEP", "SUFIX_+s")),
        *((["longest 2", table], ":3") for table in ("append", "append a b", "replace a 3")),
        *((["longest 2", "greedy 1"], ":3"), (["longest 2", "forms VERB_VB_VBZ a b"], ":3")),
        (["longest 2", "transform VERB_VB_VBZ", "forms VERB_VB_VBZ a"], ":4"),
        (["longest 2", "transform VERB_VB_VBZ", "forms VERB_VB_VBZ a %FF"], ":4"),
        (["longest 2", "transform CASE_lower", "forms CASE_lower a b"], ":4"),
        ([], ""),
    ],
)
def test_wrong_lines_are_named(entries: list[str], line: str, tmp_path: Path) -> None:
    path = tmp_path / "edits.txt"
    path.write_text("".join(f"{line}\n" for line in (HEADER, *entries)))
    with pytest.raises(DataError, match=f"edits.txt{line}"):
        EditDictionary.read(path)
    path.write_text(path.read_text().replace("form 1", "form 2"))
    with pytest.raises(DataError, match="form 1"):
        EditDictionary.read(path)
