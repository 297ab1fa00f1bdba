"""Reading, writing, applying and validating M2 files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.m2 import (
    EditApplier,
    EditFilter,
    M2Edit,
    M2Sentence,
    format_m2,
    m2_annotators,
    parse_m2,
    read_m2,
)

GOLD = """\
S This are a sentence .
A 1 2|||R:VERB:SVA|||is||was|||REQUIRED|||-NONE-|||0
A 2 3|||U:DET|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S
S_is_no_word
"""


def test_parse_blocks() -> None:
    text = GOLD.replace("S\nS_is_no_word\n", "S It works .\n\n\nS \nA 0 0|||M|||x|||a|||b|||3\n")
    first, second, third = parse_m2(text.splitlines(), "gold.m2")
    assert first.words == ("This", "are", "a", "sentence", ".")
    assert first.annotators == {
        0: [M2Edit(1, 2, "R:VERB:SVA", "is||was"), M2Edit(2, 3, "U:DET", "-NONE-")],
        1: [],
    }
    assert first.annotators[0][0].alternatives == ("is", "was")
    assert first.annotators[0][1].alternatives == ("",)
    assert (second.words, second.annotators, second.line) == (("It", "works", "."), {0: []}, 6)
    assert (third.words, third.annotators) == ((), {3: [M2Edit(0, 0, "M", "x")]})


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "gold.m2.gz"
    text = GOLD.partition("S\n")[0]
    path.write_bytes(gzip.compress(text.encode()))
    sentences = list(read_m2(path))
    assert [line for sentence in sentences for line in format_m2(sentence)] == text.splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *((GOLD, 7), ("S a\nS b\n", 2), ("A 0 1|||X|||b|||R|||-|||0\n", 1)),
        *((f"S a\nA {edit}\n", 2) for edit in ("0|||X|||b|||R|||-|||0", "0 1|||X|||b")),
        ("S a\nA 0 1|||X|||b|||R|||-|||one\n", 2),
        *((f"S a\nA {span}|||X|||b|||R|||-|||0\n", 2) for span in ("0 2", "1 0", "-1 0")),
    ],
)
def test_wrong_lines_are_named(text: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"gold\.m2:{line} "):
        list(parse_m2(text.splitlines(), "gold.m2"))


BLOCK = """\
S a cat sit at on the mat
A 0 0|||M:ADV|||Now ,|||REQUIRED|||-NONE-|||0
A 2 3|||R:VERB|||sits||sat|||REQUIRED|||-NONE-|||0
A 3 4|||U:PREP|||-NONE-|||REQUIRED|||-NONE-|||0
A 6 7|||UNK|||mat|||REQUIRED|||-NONE-|||0
A 1 2|||R:NOUN|||dog|||REQUIRED|||-NONE-|||1
"""


def test_apply_the_edits_of_an_annotator() -> None:
    (sentence,) = parse_m2(BLOCK.splitlines(), "gold.m2")
    assert EditApplier("gold.m2", 0)(sentence) == "Now , a cat sits on the mat"
    assert EditApplier("gold.m2", 1)(sentence) == "a dog sit at on the mat"
    assert EditApplier("gold.m2", 2)(sentence) == "a cat sit at on the mat"
    assert EditApplier("")(M2Sentence(("a",), {0: [M2Edit(0, 1, "U", "")]})) == ""


def test_overlapping_edits_are_rejected() -> None:
    edits = [M2Edit(0, 2, "R", "x"), M2Edit(1, 2, "R", "y")]
    with pytest.raises(DataError, match=r"gold\.m2:3: edits of annotator 0 overlap"):
        EditApplier("gold.m2")(M2Sentence(("a", "b"), {0: edits}, 3))


def test_edits_are_chosen_by_type() -> None:
    kinds = ["R:VERB:SVA", "M:VERB", "U:NOUN", "UNK", "Vt"]

    def chosen(*types: str) -> list[str]:
        return [kind for kind in kinds if EditFilter(types)(kind)]

    assert chosen() == kinds
    assert chosen("R:VERB:SVA") == chosen("VERB:SVA") == chosen("R") == ["R:VERB:SVA"]
    assert chosen("VERB") == ["M:VERB"]
    assert chosen("VERB*") == ["R:VERB:SVA", "M:VERB"]


def test_ids_of_annotators(tmp_path: Path) -> None:
    path = tmp_path / "gold.m2"
    path.write_text(BLOCK + "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||7\n")
    assert m2_annotators(path) == [0, 1, 7]
    for text in ("", "\n\nS b\n\nS c\nA 0 1|||R|||d|||REQUIRED|||-NONE-|||7\n"):
        path.write_text("S a" + text)
        assert m2_annotators(path) == [0, 7][: 1 + bool(text)]
    path.write_text("S a\nA 0 1|||R|||b|||REQUIRED|||-NONE-|||one\n")
    with pytest.raises(DataError, match=r"gold\.m2:2 is malformed"):
        m2_annotators(path)


def test_equal_words_share_memory() -> None:
    first, second = parse_m2(["S the long-word", "", "S a long-word", ""], "gold")
    assert first.words[1] is second.words[1]
