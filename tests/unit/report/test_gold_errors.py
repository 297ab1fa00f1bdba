"""Gold errors and the systems that corrected them."""

from __future__ import annotations

from fairseq_ssl.report.sentences import GoldError, annotator_texts, corrected_by_type, gold_errors
from fairseq_ssl.text.m2 import parse_m2

GOLD = """S He go to school school yesterday
A 1 2|||R:VERB:TENSE|||went|||REQUIRED|||-NONE-|||0
A 4 5|||U:NOUN||||||REQUIRED|||-NONE-|||0
A 1 2|||R:VERB:TENSE|||went|||REQUIRED|||-NONE-|||1
A 5 5|||M:ADV|||late||lately|||REQUIRED|||-NONE-|||1
A 0 1|||UNK|||He|||REQUIRED|||-NONE-|||1

S All is well
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

"""
SENTENCES = list(parse_m2(GOLD.splitlines(), "gold.m2"))
OUTPUTS = [
    ["He went to school yesterday", "All is well"],
    ["He go to school school lately yesterday", "All is bad"],
    ["He go to school school yesterday", "All is well"],
]


def test_error_is_listed_once_with_the_systems_that_corrected_it() -> None:
    assert gold_errors(SENTENCES, OUTPUTS) == [
        [
            GoldError("R:VERB:TENSE", "go", "went", [0]),
            GoldError("U:NOUN", "school", "", [0]),
            GoldError("M:ADV", "", "late or lately", [1]),
        ],
        [],
    ]


def test_correction_that_differs_from_all_annotators_does_not_count() -> None:
    (errors, _) = gold_errors(SENTENCES, [["He gone to school yesterday", "All is well"]])
    assert [error.by for error in errors] == [[], [0], []]


def test_percentages_by_type_ignore_the_operation() -> None:
    breakdown = corrected_by_type(gold_errors(SENTENCES, OUTPUTS), ["a", "b", "c"])
    means = {kind: [scores.mean for scores in row.values()] for kind, row in breakdown.items()}
    third = 100 / 3
    assert means == {
        "all (3)": [2 * third, third, 0],
        "ADV (1)": [0, 100, 0],
        "NOUN (1)": [100, 0, 0],
        "VERB:TENSE (1)": [100, 0, 0],
    }


def test_annotator_texts_apply_the_edits_to_the_source() -> None:
    assert annotator_texts(SENTENCES, "gold.m2") == [
        ["He went to school yesterday", "All is well"],
        ["He went to school school late yesterday", "All is well"],
    ]
