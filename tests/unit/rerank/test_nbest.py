"""Reading, writing and merging of n-best lists."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.rerank.nbest import (
    Candidate,
    NBest,
    SentenceCandidates,
    format_nbest,
    merge_sentences,
    parse_list,
    parse_nbest,
)

NAMES = st.text("abcXY_01.", min_size=1, max_size=4)
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: float(f"{x:.9g}"))
CANDIDATES = st.builds(
    Candidate,
    st.text("ab é=|-\u3000", max_size=9).map(lambda text: text.replace("||", "").strip(" ")),
    st.dictionaries(NAMES, NUMBERS, max_size=3),
    NUMBERS,
    st.lists(NAMES, max_size=2).map(tuple),
)


@given(st.lists(st.lists(CANDIDATES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_write_and_read_round_trip(lists: list[list[Candidate]]) -> None:
    groups = [SentenceCandidates(3 * number, candidates) for number, candidates in enumerate(lists)]
    assert list(parse_nbest(format_nbest(groups), "list")) == groups


def test_lines_of_other_tools() -> None:
    lines = [
        "0 ||| das Haus ||| LM= -1.5 TM= -1 -2e0 ||| -4.5 ||| 0-0 1-1",
        "0 ||| ||| LM= 0 TM= 1 1 ||| 0 ||| 0-0 ||| 1",
        "1 ||| ein | Haus ||| F0= -2",
    ]
    first, second = parse_nbest(lines, "list")
    scores = {"LM": -1.5, "TM_0": -1, "TM_1": -2}
    assert first.candidates[0] == Candidate("das Haus", scores, -4.5, ())
    assert first.candidates[1].text == ""
    assert second == SentenceCandidates(1, [Candidate("ein | Haus", {"F0": -2})])
    assert next(format_nbest([first])) == ("0 ||| das Haus ||| LM= -1.5 TM_0= -1 TM_1= -2 ||| -4.5")


@pytest.mark.parametrize(
    "line",
    [
        *("", "1 ||| a", "x ||| a ||| s= 1 ||| 1", "1 ||| a ||| b ||| c ||| s= 1 ||| 1 ||| 2"),
        *("0 ||| a ||| s= 1 ||| 1", "1 ||| a ||| s= 1 s= 2 ||| 1", "1 ||| a ||| -1 s= 2 ||| 1"),
        *("1 ||| a ||| = 2 ||| 1", "1 ||| a ||| s= t= 2 ||| 1", "1 ||| a ||| s= one ||| 1"),
        *("1 ||| a ||| s= nan ||| 1", "1 ||| a ||| s= 1 ||| inf"),
    ],
)
def test_wrong_lines_are_named(line: str) -> None:
    lines = ["1 ||| a ||| s= 1 ||| 1", line, "9 ||| a ||| s= 1 ||| 1"]
    with pytest.raises(DataError, match="list:2 "):
        list(parse_nbest(lines, "list"))


@pytest.mark.parametrize(
    ("lines", "culprit"),
    [("0 ||| a ||| s= 1", "string"), (["0 ||| a ||| s= 1", None], "Line 2"), ([], "list is empty")],
)
def test_wrong_lists_are_rejected(lines: Any, culprit: str) -> None:
    with pytest.raises((DataError, TypeError), match=culprit):
        NBest.parse(lines)


def test_lists_are_streamed_and_numbers_keep_twelve_digits() -> None:
    def lines() -> Iterator[str]:
        yield f"0 ||| a ||| s= {-math.pi * 100} ||| {0.1 + 0.2}"
        yield "1 ||| a ||| s= 1 ||| 1"
        raise AssertionError

    first = next(parse_nbest(lines(), "list"))
    assert list(format_nbest([first])) == ["0 ||| a ||| s= -314.159265359 ||| 0.3"]


GENERATED = """\
2026-01-01 00:00:00 | INFO | fairseq_cli.generate | loaded
S-1\tx y
T-1\tu v
H-1\t-0.5\ta@@ b c
D-1\t-0.5\tab c
P-1\t-0.5 -0.5
H-1\t-1.25\ta@@ b d
H-0\t-2\te
H-0\t-3\t
Generate test with beam=2: BLEU4 = 0"""


def printed(text: str, score: float) -> Candidate:
    """Return the expected candidate of a hypothesis. fairseq prints scores to base 2."""
    return Candidate(text, {"l2r": score * math.log(2)}, score * math.log(2))


def test_output_of_fairseq_generate() -> None:
    def rewrite(tokens: str) -> str:
        return tokens.replace("@@ ", "")

    found = list(parse_list(GENERATED.splitlines(keepends=True), "list", "l2r", rewrite))
    assert found == [
        SentenceCandidates(0, [printed("e", -2), printed("", -3)]),
        SentenceCandidates(1, [printed("ab c", -0.5), printed("ab d", -1.25)]),
    ]
    turned = parse_list(["H-0\t-1\tc b a@@"], "list", "r2l", rewrite, right_to_left=True)
    assert next(turned).candidates[0].text == "ab c"
    with pytest.raises(UsageError, match="list is in Moses format"):
        parse_list(["0 ||| a ||| r2l= -1 ||| -1"], "list", "r2l", rewrite, right_to_left=True)


@pytest.mark.parametrize("line", ["H-0\t-1", f"H-{'9' * 5000}\t-1\ta", "H-0\tx\ta", "S-0\ta"])
def test_wrong_lines_of_fairseq_generate_are_named(line: str) -> None:
    with pytest.raises(DataError, match="list"):
        list(parse_list([line], "list", "l2r", str))


def one(number: int, *candidates: tuple[str, dict[str, float]]) -> SentenceCandidates:
    return SentenceCandidates(
        number, [Candidate(text, scores, sum(scores.values())) for text, scores in candidates]
    )


def test_lists_are_merged_without_duplicates() -> None:
    left = [one(0, ("a", {"l": -1}), ("b", {"l": -2}), ("a", {"l": -3})), one(1, ("c", {"l": -1}))]
    right = [one(0, ("d", {"r": -1}), ("a", {"r": -5})), one(1, ("c", {"r": -2}))]
    found = list(merge_sentences({"L": left, "R": right}))
    assert found == [
        SentenceCandidates(
            0,
            [
                Candidate("a", {"l": -1, "r": -5}, -1, ("L", "R")),
                Candidate("b", {"l": -2}, -2, ("L",)),
                Candidate("d", {"r": -1}, -1, ("R",)),
            ],
        ),
        SentenceCandidates(1, [Candidate("c", {"l": -1, "r": -2}, -1, ("L", "R"))]),
    ]
    again = list(merge_sentences({"X": found, "Y": found}))
    assert again == found  # sources of the lists are kept


def test_incompatible_lists_are_rejected() -> None:
    left = [one(0, ("a", {"s": -1})), one(1, ("a", {"s": -1}))]
    with pytest.raises(DataError, match="Sentence 1 is not in R"):
        list(merge_sentences({"L": left, "R": left[:1]}))
    with pytest.raises(DataError, match="Sentence 0 is not in L"):
        list(merge_sentences({"L": left[1:], "R": left}))
    other = [one(0, ("a", {"s": -1.5}))]
    with pytest.raises(DataError, match=r"is -1 in an earlier list and -1\.5 in R"):
        list(merge_sentences({"L": left[:1], "R": other}))
    with pytest.raises(DataError, match="sentence 7"):
        list(format_nbest([one(7, ("a ||| b", {}))]))
