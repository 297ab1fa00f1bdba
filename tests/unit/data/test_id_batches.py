"""Batches of sentences of similar length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.id_batches import padded_batches


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(30, 100))
def test_batches_have_all_sentences_and_respect_the_limit(
    lengths: list[int], max_tokens: int
) -> None:
    batches = padded_batches(lengths, max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(lengths[index] for index in batch) <= max_tokens
    max_lengths = [lengths[batch[0]] for batch in batches]
    assert max_lengths == sorted(max_lengths, reverse=True)


def test_sentence_above_the_limit_is_a_batch() -> None:
    assert padded_batches([5, 50], 20) == [[1], [0]]


def test_batches_in_a_given_order() -> None:
    sizes = [3, 9, 1, 4, 4]
    assert padded_batches(sizes, 9, [2, 0, 3, 4, 1]) == [[2, 0], [3, 4], [1]]
    assert padded_batches(sizes, 1, range(5)) == [[0], [1], [2], [3], [4]]
