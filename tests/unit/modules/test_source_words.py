"""Local ids of out-of-vocabulary words."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.modules.copying import SourceWords, first_positions

VOCABULARY = 10
UNK = 3
rows = st.integers(1, 5).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(4, 16), min_size=length, max_size=length), min_size=1, max_size=4
    )
)


def words(*sentences: list[int]) -> SourceWords:
    return SourceWords.from_ids(torch.tensor(sentences), VOCABULARY)


def test_local_ids_follow_the_order_of_unknown_words() -> None:
    made = words([900, 5, 77, 900, 2], [5, 77, 6, 7, 2], [5, 6, 7, 8, 2])
    assert made.tokens.tolist() == [[10, 5, 11, 10, 2], [5, 10, 6, 7, 2], [5, 6, 7, 8, 2]]
    assert made.first.tolist() == [[0, 1, 2, 0, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert made.unknown.tolist() == [[900, 77], [77, -1], [-1, -1]]
    assert made.width == 12


def test_targets_get_the_local_ids_of_their_source() -> None:
    made = words([900, 5, 77, 2], [5, 77, 6, 2])
    target = torch.tensor([[77, 900, 55, 5], [77, 900, 55, 5]])
    assert made.to_local(target, UNK).tolist() == [[11, 10, UNK, 5], [10, UNK, UNK, 5]]


@given(rows)
def test_from_local_inverts_to_local(sentences: list[list[int]]) -> None:
    made = words(*sentences)
    assert words(*made.tokens.tolist()).tokens.equal(made.tokens)
    for row, sentence in enumerate(sentences):
        assert made.from_local(made.tokens[row], row).tolist() == sentence
        assert made.to_local(torch.tensor(sentences), UNK)[row].equal(made.tokens[row])
        for place, word in enumerate(sentence):
            assert made.first[row, place] == sentence.index(word)


def test_select_rows_keeps_the_width() -> None:
    made = words([900, 77, 2], [5, 6, 2]).select_rows(torch.tensor([1, 1]))
    assert made.tokens.tolist() == [[5, 6, 2], [5, 6, 2]]
    assert made.width == 12


def test_first_positions_of_empty_input() -> None:
    assert first_positions(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0)
    assert SourceWords.from_ids(torch.empty(0, 3, dtype=torch.long), VOCABULARY).width == VOCABULARY
