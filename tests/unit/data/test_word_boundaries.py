"""Word boundaries of subword schemes."""

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


def split_words(subwords: str, lines: list[list[int]]) -> list[list[list[int]]]:
    """Return the words of each line, as lists of ids."""
    spans = Spans.of([np.array(line, dtype=np.int64) for line in lines])
    words, counts = WordBoundaries.of(SYMBOLS, subwords).split_words(spans)
    each = iter([words.ids[s:e].tolist() for s, e in zip(words.starts, words.ends, strict=True)])
    split_lines = [[next(each) for _ in range(count)] for count in counts]
    assert not list(each)
    return split_lines


def test_sentencepiece_by_hand() -> None:
    # "cat" has no mark but is the first token of the second line
    lines = [[THE, CAT, DOT, MARK, CAT], [CAT, THE], [], [MARK]]
    expected = [[[THE, CAT, DOT], [MARK, CAT]], [[CAT], [THE]], [], [[MARK]]]
    assert split_words("sentencepiece", lines) == expected


def test_subword_nmt_by_hand() -> None:
    # the second line ends within a word, which does not continue in the next line
    lines = [[LO, W, ER, CAT, W, ER], [CAT, LO], [ER]]
    expected = [[[LO, W, ER], [CAT], [W, ER]], [[CAT], [LO]], [[ER]]]
    assert split_words("subword-nmt", lines) == expected


@given(lines=LINES)
def test_words_are_equal_to_a_loop_over_subwords(lines: list[list[int]]) -> None:
    for subwords in ("sentencepiece", "subword-nmt", "none"):
        for line, words in zip(lines, split_words(subwords, lines), strict=True):
            assert [i for word in words for i in word] == line
            assert words == split_words_in_a_loop(subwords, line)


def split_words_in_a_loop(subwords: str, line: list[int]) -> list[list[int]]:
    words: list[list[int]] = []
    for before, i in zip([None, *line], line, strict=False):
        continues = {
            "none": False,
            "sentencepiece": not SYMBOLS[i].startswith("\u2581"),
            "subword-nmt": before is not None and SYMBOLS[before].endswith("@@"),
        }[subwords]
        if words and continues:
            words[-1].append(i)
        else:
            words.append([i])
    return words


@pytest.mark.parametrize(
    ("subwords", "culprit"),
    [
        ("sentencepiece", "--noise-subwords"),
        ("subword-nmt", "--noise-subwords"),
        ("sentence_piece", "sentence_piece"),
    ],
)
def test_a_dictionary_without_marks_is_rejected(subwords: str, culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        WordBoundaries.of(["<s>", "</s>", "the", "cat"], subwords)
