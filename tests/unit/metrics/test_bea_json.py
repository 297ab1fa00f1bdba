"""Essays of BEA-2019: edits of characters become edits of tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.bea_json import (
    ConversionOptions,
    Essay,
    TextEdit,
    _Paragraph,
    _without_overlaps,
    convert_essays,
)
from fairseq_ssl.text.m2 import M2Edit, M2Sentence

UNTYPED = ConversionOptions(model=None)


def converted(
    text: str, *edits: tuple[int, int, str | None], options: ConversionOptions = UNTYPED
) -> list[M2Sentence]:
    essay = Essay(text, {0: [TextEdit(*edit) for edit in edits]})
    return list(convert_essays([essay], options))


def found(text: str, *edits: tuple[int, int, str | None]) -> list[tuple[int, int, str]]:
    """Return the edits of a text of one sentence."""
    (sentence,) = converted(text, *edits)
    return [(edit.start, edit.end, edit.correction) for edit in sentence.annotators[0]]


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a cat sits .", (2, 5, "dog"), [(1, 2, "dog")]),
        ("a cat sits .", (0, 5, "a dog"), [(1, 2, "dog")]),
        ("a cat sits .", (2, 6, ""), [(1, 2, "")]),
        ("a cat sits .", (1, 2, ""), []),
        ("a cat sits .", (1, 2, " , "), [(1, 1, ",")]),
        ("a cat sits .", (2, 2, "big "), [(1, 1, "big")]),
        ("a cat sits .", (0, 0, "So "), [(0, 0, "So")]),
        ("a cat sits .", (12, 12, " ?!"), [(4, 4, "? !")]),
        ("a cat sits .", (5, 5, "s"), [(2, 2, "s")]),
        ("a cat sits .", (9, 10, ""), [(2, 3, "sit")]),
        ("a cat sits .", (3, 3, "h"), [(1, 2, "chat")]),
        ("a cat sits .", (3, 8, "ar f"), [(1, 3, "car fts")]),
        ("a cat\u2019s toy .", (5, 6, "\u2018"), []),
        ("a cat sits .", (2, 5, "very  big\ncat"), [(1, 1, "very big")]),
        ("a cat sits .", (2, 5, None), [(1, 2, "cat")]),
        ("  a \t cat  sits .", (6, 9, "dog"), [(1, 2, "dog")]),
        ("a cat sits . ", (12, 13, ""), []),
    ],
)
def test_an_edit_of_characters(
    text: str, edit: tuple[int, int, str | None], expected: list[tuple[int, int, str]]
) -> None:
    assert found(text, edit) == expected


def test_an_edit_of_a_token_that_is_already_edited_is_dropped() -> None:
    assert found("a caat sits .", (2, 4, "co"), (5, 6, "st")) == [(1, 2, "coat")]
    assert found("a caat sits .", (2, 6, "cat"), (5, 6, "st")) == [(1, 2, "cat")]


def test_corrections_that_overlap() -> None:
    with pytest.raises(DataError, match="essay has edits of one annotator that overlap"):
        found("a b c", (2, 5, "x"), (0, 5, "a b c"), (4, 5, ""))


def test_marked_errors() -> None:
    (sentence,) = converted("a cat sits .", (0, 5, None), (6, 10, "sat"))
    assert sentence.annotators[0] == [M2Edit(0, 2, "UNK", "a cat"), M2Edit(2, 3, "NA", "sat")]
    assert found("a cat sits .", (0, 10, None), (2, 5, "dog")) == [(1, 2, "dog")]
    assert found("a cat sits .", (0, 10, None), (2, 2, "big ")) == [(1, 1, "big")]
    assert len(found("a cat sits .", (0, 5, None), (0, 0, "Oh "))) == 2


def test_sentences_and_lines() -> None:
    text = "It rains. He\nsits. They\n\n \nsleep."
    edits = [
        (9, 9, "?"),  # punctuation between sentences: of the first
        (10, 12, "She"),
        (11, 15, "x"),  # across lines
        (18, 18, "!"),
        (19, 23, "Cats"),
    ]
    sentences = converted(text, *edits)
    assert [(" ".join(one.words), one.annotators[0]) for one in sentences] == [
        ("It rains .", [M2Edit(3, 3, "NA", "?")]),
        ("He", [M2Edit(0, 1, "NA", "She")]),
        ("sits .", [M2Edit(2, 2, "NA", "!")]),
        ("They", [M2Edit(0, 1, "NA", "Cats")]),
        ("sleep .", []),
    ]
    joined = converted("It rains. He sits.", (7, 12, "x"), (10, 10, "But "))
    assert [one.annotators[0] for one in joined] == [[], [M2Edit(0, 0, "NA", "But")]]
    presplit = ConversionOptions(model=None, presplit=True)
    (whole,) = converted("It rains. He sits.", (7, 12, "x y"), options=presplit)
    assert whole.annotators[0] == [M2Edit(1, 4, "NA", "rainx y")]


def test_annotators() -> None:
    edit = TextEdit(2, 5, "dog", "RN")
    essay = Essay("a cat", {2: [edit], 0: []})
    (sentence,) = convert_essays([essay], UNTYPED)
    assert list(sentence.annotators.items()) == [(0, []), (2, [M2Edit(1, 2, "RN", "dog")])]
    assert list(convert_essays([Essay("\n \n", {})], UNTYPED)) == []


def cleaned_slowly(text: str, places: list[int]) -> tuple[str, list[int]]:
    """Remove one space at a time."""
    text = "".join(" " if char.isspace() else char for char in text)
    while (at := text.find("  ")) >= 0:
        text = text[:at] + text[at + 1 :]
        places = [place - (place > at) for place in places]
    if text.startswith(" "):
        text, places = text[1:], [max(place - 1, 0) for place in places]
    return text, places


@settings(max_examples=300, deadline=None)
@given(st.text("ab \t", max_size=12))
def test_spaces_are_normalized_as_one_at_a_time(text: str) -> None:
    paragraph = _Paragraph(text)
    paragraph.edits[0] = [TextEdit(at, at, "") for at in range(len(text) + 1)]
    expected, places = cleaned_slowly(text, list(range(len(text) + 1)))
    assert paragraph.clean() == bool(expected)
    assert paragraph.text == expected
    assert [edit.start for edit in paragraph.edits[0]] == places


spans = st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from([None, "x"]))


@settings(max_examples=300, deadline=None)
@given(st.lists(spans, max_size=6))
def test_marked_errors_that_contain_a_correction(drawn: list[tuple[int, int, str | None]]) -> None:
    edits = [TextEdit(start, start + length, text) for start, length, text in drawn]

    def contains(marked: TextEdit, other: TextEdit) -> bool:
        if other.start == other.end:
            return marked.start < other.start < marked.end
        return marked.start <= other.start and other.end <= marked.end

    expected = [
        edit
        for edit in edits
        if edit.correction is not None
        or not any(contains(edit, other) for other in edits if other.correction is not None)
    ]
    assert _without_overlaps(edits) == expected
