"""Which errors of a gold standard a system corrected, as an annotator did."""

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


def test_an_error_is_told_once_with_the_systems_that_corrected_it() -> None:
    assert gold_errors(SENTENCES, OUTPUTS) == [
        [
            GoldError("R:VERB:TENSE", "go", "went", [0]),
            GoldError("U:NOUN", "school", "", [0]),
            GoldError("M:ADV", "", "late or lately", [1]),
        ],
        [],
    ]


def test_a_correction_unlike_that_of_an_annotator_is_none() -> None:
    (errors, _) = gold_errors(SENTENCES, [["He gone to school yesterday", "All is well"]])
    assert [error.by for error in errors] == [[], [0], []]


def test_shares_are_of_types_without_operation() -> None:
    shares = corrected_by_type(gold_errors(SENTENCES, OUTPUTS), ["a", "b", "c"])
    shown = {kind: [spread.mean for spread in row.values()] for kind, row in shares.items()}
    third = 100 / 3
    assert shown == {
        "all (3)": [2 * third, third, 0],
        "ADV (1)": [0, 100, 0],
        "NOUN (1)": [100, 0, 0],
        "VERB:TENSE (1)": [100, 0, 0],
    }


def test_references_are_what_annotators_make_of_sources() -> None:
    assert annotator_texts(SENTENCES, "gold.m2") == [
        ["He went to school yesterday", "All is well"],
        ["He went to school school late yesterday", "All is well"],
    ]
