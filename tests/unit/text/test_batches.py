"""Batches of like lengths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.inference.loading import padded_batches


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(30, 100))
def test_batches_hold_all_and_no_more_than_is_allowed(lengths: list[int], most: int) -> None:
    made = padded_batches(lengths, most)
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) * max(lengths[place] for place in batch) <= most
    longest = [lengths[batch[0]] for batch in made]
    assert longest == sorted(longest, reverse=True)


def test_a_sentence_longer_than_a_batch_is_one() -> None:
    assert padded_batches([5, 50], 20) == [[1], [0]]


def test_batches_hold_no_more_than_they_may() -> None:
    sizes = [3, 9, 1, 4, 4]
    assert padded_batches(sizes, 9, [2, 0, 3, 4, 1]) == [[2, 0], [3, 4], [1]]
    assert padded_batches(sizes, 1, range(5)) == [[0], [1], [2], [3], [4]]
