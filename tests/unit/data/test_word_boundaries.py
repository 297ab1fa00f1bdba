"""Spans cut from subwords, taken and told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.id_noise import WordBoundaries
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.errors import ConfigurationError

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "\u2581the", "\u2581", "cat", ".", "lo@@", "w@@", "er"]
THE, MARK, CAT, DOT, LO, W, ER = range(4, 11)
LINES = st.lists(st.lists(st.integers(3, 10), max_size=8), max_size=5)


def cut(subwords: str, lines: list[list[int]]) -> list[list[list[int]]]:
    """The words of each line, as lists of ids."""
    laid = Spans.of([np.array(line, dtype=np.int64) for line in lines])
    words, in_line = WordBoundaries.of(SYMBOLS, subwords).split_words(laid)
    each = iter([words.ids[s:e].tolist() for s, e in zip(words.starts, words.ends, strict=True)])
    cut_lines = [[next(each) for _ in range(count)] for count in in_line]
    assert not list(each)
    return cut_lines


def test_sentencepiece_by_hand() -> None:
    # "cat" begins the second line although it has no mark
    lines = [[THE, CAT, DOT, MARK, CAT], [CAT, THE], [], [MARK]]
    expected = [[[THE, CAT, DOT], [MARK, CAT]], [[CAT], [THE]], [], [[MARK]]]
    assert cut("sentencepiece", lines) == expected


def test_subword_nmt_by_hand() -> None:
    # the second line ends within a word, which does not go on in the next
    lines = [[LO, W, ER, CAT, W, ER], [CAT, LO], [ER]]
    expected = [[[LO, W, ER], [CAT], [W, ER]], [[CAT], [LO]], [[ER]]]
    assert cut("subword-nmt", lines) == expected


@given(lines=LINES)
def test_words_are_those_between_the_spaces_of_the_joined_text(lines: list[list[int]]) -> None:
    for subwords in ("sentencepiece", "subword-nmt", "none"):
        for line, words in zip(lines, cut(subwords, lines), strict=True):
            assert [i for word in words for i in word] == line
            assert len(words) == len(plainly_cut(subwords, line))
            assert words == plainly_cut(subwords, line)


def plainly_cut(subwords: str, line: list[int]) -> list[list[int]]:
    words: list[list[int]] = []
    for before, i in zip([None, *line], line, strict=False):
        goes_on = {
            "none": False,
            "sentencepiece": not SYMBOLS[i].startswith("\u2581"),
            "subword-nmt": before is not None and SYMBOLS[before].endswith("@@"),
        }[subwords]
        if words and goes_on:
            words[-1].append(i)
        else:
            words.append([i])
    return words


def test_subwords_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Did you mean 'sentencepiece'"):
        WordBoundaries.of(SYMBOLS, "sentence_piece")
