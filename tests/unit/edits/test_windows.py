"""Windows cover a sentence, and each position is used where it is most central."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits.windows import Windows
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.text.spans import Spans

BOS = 0


def sentences(lengths: list[int]) -> Spans:
    """Return sentences in which each token has a unique id."""
    ids = iter(range(10, 100_000))
    return Spans.of([np.array([BOS, *(next(ids) for _ in range(one))]) for one in lengths])


def test_case_computed_by_hand() -> None:
    pieces = Windows(size=4, overlap=2).split(sentences([7]))
    rows = np.split(pieces.text.ids, pieces.text.starts[1:])
    assert [row.tolist() for row in rows] == [
        [BOS, 10, 11, 12, 13],
        [BOS, 12, 13, 14, 15],
        [BOS, 13, 14, 15, 16],
    ]
    assert pieces.begins.tolist() == [0, 2, 3]
    assert pieces.ends.tolist() == [4, 4, 5]
    assert pieces.ids.tolist() == [BOS, *range(10, 17)]


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    sizes=st.tuples(st.integers(1, 12), st.integers(0, 11)).filter(lambda two: two[0] > two[1]),
)
def test_each_position_is_used_once_where_it_is_most_central(
    lengths: list[int], sizes: tuple[int, int]
) -> None:
    text, size = sentences(lengths), sizes[0]
    pieces = Windows(*sizes).split(text)
    assert pieces.ids.tolist() == text.ids.tolist()
    assert pieces.text.lengths.max() <= size + 1
    ends = set(text.ids[text.ends - 1].tolist())
    begins = set(text.ids[text.starts[text.lengths > 1] + 1].tolist())

    best: dict[int, float] = {}
    counted: dict[int, float] = {}
    for row, begin, end in zip(
        np.split(pieces.text.ids, pieces.text.starts[1:]), pieces.begins, pieces.ends, strict=True
    ):
        assert row[0] == BOS
        for place, token in enumerate(row[1:].tolist(), 1):
            to_left = np.inf if row[1] in begins else place
            to_right = np.inf if row[-1] in ends else len(row) - place
            best[token] = max(best.get(token, 0), min(to_left, to_right))
            if begin <= place < end:
                counted[token] = min(to_left, to_right)
    assert counted == best


def test_short_sentences_are_not_split() -> None:
    text = sentences([3, 5, 0])
    pieces = Windows(5, 1).split(text)
    assert pieces.text is text
    assert pieces.used_positions is None


def test_windows_can_be_selected_in_any_order() -> None:
    pieces = Windows(4, 2).split(sentences([2, 7])).select(np.array([3, 0, 1]))
    assert pieces.ids.tolist() == [17, 18, BOS, 10, 11, BOS, 12, 13, 14]


def test_window_size_excludes_start_and_end() -> None:
    assert Windows.of_model(512) == Windows(510, 127)
    assert Windows.of_model(3) == Windows(1, 0)
    with pytest.raises(ConfigurationError, match="positions"):
        Windows.of_model(2)


@given(
    rows=st.lists(st.lists(st.integers(1, 5), min_size=0, max_size=20), min_size=1, max_size=5),
    sizes=st.tuples(st.integers(5, 12), st.integers(0, 4)),
)
def test_windows_of_words_hold_at_most_so_many_subwords(
    rows: list[list[int]], sizes: tuple[int, int]
) -> None:
    text = sentences([len(row) for row in rows])
    subwords = np.concatenate([[1, *row] for row in rows])
    counts = dict(zip(text.ids.tolist(), subwords.tolist(), strict=True))
    pieces = Windows(*sizes).split(text, subwords)
    assert pieces.ids.tolist() == text.ids.tolist()
    for row in np.split(pieces.text.ids, pieces.text.starts[1:]):
        assert sum(counts[token] for token in row[1:].tolist()) <= sizes[0]
