"""Alignment: examples of the paper, and comparison with a slow reference."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.edits import alignment
from fairseq_ssl.edits.alignment import Change, align_tokens
from tests.unit.edits.plain_edits import Part, plain_diff, table

WORDS = ("a", "bb", "ccc", "dddddd", "ee")


def parts(source: Sequence[str], target: Sequence[str]) -> list[Part]:
    """Format changes like the diffs of table 1."""
    found = {change.position: change for change in align_tokens(source, target) or ()}
    result = []
    for place, token in enumerate(("", *source)):
        change = found.pop(place, Change(place, True, ()))
        if place:
            result.append(("c" if change.kept else "d", token))
        if change.inserted:
            result.append(("i", " ".join(change.inserted)))
    assert not found
    return result


def shown(source: str, target: str) -> str:
    signs = {"c": "", "d": "-", "i": "+"}
    return " ".join(
        signs[op] + text.replace(" ", "_") for op, text in parts(source.split(), target.split())
    )


EXAMPLES = f"""
# table 1
Bolt can have run race | Bolt could have run the race | Bolt -can +could have run +the race
He still won race ! | However , he still won ! | +However_, -He +he still won -race !
# table 9: the difference in length decides
He sat , then he ran | He sat . Then , he ran | He sat -, +. -then +Then_, he ran
# from 1,001 characters on, a substitution costs more than a deletion and an insertion
{"a" * 1001} b | b a | -{"a" * 1001} b +a
# the order of additions decides, as in the authors' code
a a | dddd dddd dddd | -a +dddd -a +dddd_dddd
a a a | dddd bb | -a +dddd -a +bb -a
aaaa aaaa aaaa | dddd bbbb | -aaaa -aaaa +dddd -aaaa +bbbb
"""


@pytest.mark.parametrize("row", table(EXAMPLES))
def test_alignments_of_examples(row: str) -> None:
    source, target, expected = (part.strip() for part in row.split("|"))
    assert shown(source, target) == expected


words = st.lists(st.sampled_from(WORDS), max_size=14)


words = st.lists(st.sampled_from(WORDS) | st.text("x", min_size=1), max_size=25)


@settings(max_examples=500)
@given(words, words, st.lists(st.tuples(st.integers(0, 25), st.integers(0, 2), words), max_size=6))
def test_alignment_equals_a_slow_reference(
    source: list[str], other: list[str], changes: list[tuple[int, int, list[str]]]
) -> None:
    """For two different sentences, and for a sentence with a few changes."""
    similar = source.copy()
    for place, deleted, inserted in changes:
        similar[place : place + deleted] = inserted[:2]
    for target in (other, similar):
        assert parts(source, target) == plain_diff(source, target)
        assert parts(tuple(source), tuple(target)) == parts(source, target)


def test_long_pairs_are_aligned_unless_they_are_too_different() -> None:
    source = [f"w{n}" for n in range(100_000)]
    target = source.copy()
    del target[7]
    target[50_000:50_000] = ["x"]
    assert align_tokens(source, target) == [Change(8, False, ()), Change(50_001, True, ("x",))]
    assert align_tokens(source, source[::-1]) is None
    assert align_tokens(source[:10], source[:10] + source) is not None


def test_cost_table_has_a_max_number_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = list("abcdefgh"), list("hgfedcba")
    full = align_tokens(source, target)
    monkeypatch.setattr(alignment, "MAX_CELLS", 60)
    assert align_tokens(source, target) is None
    assert align_tokens(source[:2], target[:2]) is not None
    monkeypatch.setattr(alignment, "MAX_CELLS", 200)
    assert align_tokens(source, target) == full
