"""Votes on the edits of several corrections, in cases computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits import vote
from fairseq_ssl.edits.extraction import vote_files
from fairseq_ssl.errors import DataError, UsageError

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


def test_files(tmp_path: Path) -> None:
    content = {"source": ["a b", "c"], "one": ["a x", "c d"], "two": ["a x", "c"]}
    for name, some in content.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in some))
    paths = [tmp_path / name for name in content]
    lines, signature = vote_files(paths[0], paths[1:])
    assert list(lines) == ["a x", "c"]
    assert str(signature).startswith("edits-vote|systems:2|min_votes:2")
    assert list(vote_files(paths[0], paths[1:], 1)[0]) == ["a x", "c d"]
    (tmp_path / "two").write_text("a\n")
    with pytest.raises(DataError, match="two"):
        list(vote_files(paths[0], paths[1:])[0])


@pytest.mark.parametrize(("systems", "min_votes"), [(2, 3), (2, 0), (0, None)])
def test_impossible_number_of_votes_is_rejected(systems: int, min_votes: int | None) -> None:
    with pytest.raises(UsageError, match=f"{systems} corrections"):
        vote("a", ["a"] * systems, min_votes)
