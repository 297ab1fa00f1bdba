"""GECToR's labels: each changes a word as a plain reference does, with intended exceptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.gector_labels import NAMES, label_table, read_verb_forms
from fairseq_ssl.errors import DataError
from tests.unit.edits.plain_edits import is_possible

VERBS = """\
go_goes:VB_VBZ
go_went:VB_VBD
goes_go:VBZ_VB
be_was:VB_VBD
be_were:VB_VBD
'm_be:VBP_VB
"""
TABLE = (
    *("<OOV>", "$KEEP", "$REPLACE_is", "$APPEND_the", "$DELETE", "$APPEND_a_b", "$REPLACE_%"),
    *(name for name in NAMES if name not in ("$KEEP", "$DELETE", "<OOV>", "@@UNKNOWN@@")),
)
WORDS = (
    "go",
    "Go",
    "be",
    "goes",
    "mcDonald",
    "DVDS",
    "iphone",
    "well-known-man",
    "-",
    "a-",
    "x",
    "ß",
)
CHANGED = {
    ("-", "$TRANSFORM_SPLIT_HYPHEN"): "-",
    ("a-", "$TRANSFORM_SPLIT_HYPHEN"): "a-",
    **{(word, "$TRANSFORM_AGREEMENT_SINGULAR"): word for word in ("-", "x", "ß")},
}
"""Words that the package makes empty or splits into an empty part, and that we keep."""


@pytest.fixture
def verbs(tmp_path: Path) -> Path:
    path = tmp_path / "verb-form-vocab.txt"
    path.write_text(VERBS)
    return path


def plain_edit(word: str, label: str) -> str:
    """Return the words that replace a word, from a description of the labels."""
    kind, _, rest = label.removeprefix("$TRANSFORM_").partition("_")
    if label.startswith("$APPEND_"):
        return f"{word} {label[len('$APPEND_') :]}"
    if label.startswith("$REPLACE_"):
        return label[len("$REPLACE_") :]
    if kind == "CASE":
        return {
            "LOWER": word.lower(),
            "UPPER": word.upper(),
            "CAPITAL": word.capitalize(),
            "CAPITAL_1": word[0] + word[1:].capitalize(),
            "UPPER_-1": word[:-1].upper() + word[-1],
        }[rest]
    if kind == "AGREEMENT":
        return {"PLURAL": word + "s", "SINGULAR": word[:-1]}[rest]
    if kind == "SPLIT":
        return word.replace("-", " ")
    if kind == "VERB":
        forms = (line.split(":") for line in VERBS.splitlines())
        pairs = [words.split("_") for words, tags in forms if tags == rest]
        return next((form for verb, form in pairs if verb == word), word)
    return "" if label == "$DELETE" else word


def test_labels_change_words_as_in_the_package(verbs: Path) -> None:
    table = label_table(TABLE, Path("labels.txt"), verbs)
    assert len(table.rows) == len(TABLE)
    assert sorted(table.rows) == list(range(len(TABLE)))
    for label, row in enumerate(table.rows):
        name = TABLE[row]
        if name.startswith("$MERGE_"):
            assert table.edits.names[label] == f"MERGE_{name.removeprefix('$MERGE_').lower()}"
            continue
        for word in WORDS:
            expected = CHANGED.get((word, name), plain_edit(word, name))
            is_transform = label >= table.edits.first_transform
            if is_transform and not is_possible(table.edits, label, word):
                assert expected == word, (word, name)
            else:
                assert " ".join(table.edits.labels[label].edited(word)) == expected, (word, name)


def test_order_of_labels(verbs: Path) -> None:
    names = (
        *("$TRANSFORM_AGREEMENT_PLURAL", "$REPLACE_a", "<OOV>", "$DELETE"),
        *("$TRANSFORM_VERB_VB_VBZ", "$APPEND_b", "$TRANSFORM_CASE_UPPER", "$KEEP", "$APPEND_a"),
    )
    edits, rows = label_table(names, Path("labels.txt"), verbs)
    assert rows == (7, 3, 5, 8, 1, 6, 4, 0, 2)
    assert edits.names == (
        *("KEEP", "DELETE", "APPEND_b", "APPEND_a", "REPLACE_a"),
        *("CASE_upper", "VERB_VB_VBZ", "SUFFIX_+s", "UNKNOWN_label"),
    )
    assert edits.greedy
    assert edits.max_ngram == 1
    assert EditDictionary.parse(edits.text().splitlines(), "edits.txt") == edits
    without = label_table(names, Path("labels.txt")).edits
    assert without != edits
    assert without.labels[6].edited("Go") == ["Goes"]


def test_wrong_tables_of_verb_forms_are_rejected(verbs: Path) -> None:
    assert read_verb_forms(verbs)["VB_VBD"] == {"go": "went", "be": "was"}
    for line in ("go goes VB VBZ", "go_goes", "_goes:VB_VBZ", "go_goes:VB", "a_b_c:VB_VBZ"):
        verbs.write_text(f"{VERBS}{line}\n")
        with pytest.raises(DataError, match=r"verb-form-vocab\.txt:7"):
            read_verb_forms(verbs)
