"""Lexicon of words to insert, from a dictionary or from a sample of a text."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from fairseq.data import ListDataset
from numpy.typing import NDArray

from fairseq_ssl.data.id_noise import Lexicon, WordBoundaries, sample_blocks
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.errors import DataError

EOS, UNK, MASK = 2, 3, 8
SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "a@@", "b", "c", "d@@", "<mask>"]
A, B, C, D = 4, 5, 6, 7
KNOWN = np.array([A <= symbol < MASK for symbol in range(len(SYMBOLS))])


def text(*lines: list[int]) -> tuple[ListDataset, NDArray[np.int64]]:
    sizes = np.array([len(line) + 1 for line in lines])
    return ListDataset([torch.tensor([*line, EOS]) for line in lines], sizes), sizes


def read_lexicon(*lines: list[int], mask: int | None = None) -> Lexicon:
    """Count the words of a text with subwords."""
    boundaries = WordBoundaries.of(SYMBOLS, "subword-nmt")
    words, _ = boundaries.split_words(sample_blocks(*text(*lines)))
    return Lexicon.counted(words, np.ones(len(words), np.int64), KNOWN, mask)


def counts(lexicon: Lexicon) -> dict[tuple[int, ...], int]:
    words = lexicon.words
    runs = [
        tuple(words.ids[s : s + n].tolist())
        for s, n in zip(words.starts, words.lengths, strict=True)
    ]
    return dict(zip(runs, lexicon.counts.tolist(), strict=True))


def test_words_are_counted_and_the_mask_is_never_sampled() -> None:
    lines = [[A, B, C, A, B], [B, UNK, C], [A, UNK, MASK], [], [D]]
    lexicon = read_lexicon(*lines, mask=MASK)
    # "a@@ <unk>" is not counted, since it contains <unk>
    expected = {(A, B): 2, (C,): 2, (B,): 1, (D,): 1}
    assert counts(lexicon) == {**expected, (MASK,): 0}
    assert (np.diff(lexicon.words.keys.astype(object)) > 0).all()

    samples = lexicon.unigrams.at((np.arange(6000) + 0.5) / 6000)
    words = lexicon.of_keys(samples)
    runs = np.split(words.ids, np.cumsum(words.lengths)[:-1])
    seen = Counter(tuple(run.tolist()) for run in runs)
    assert seen == {word: 1000 * count for word, count in expected.items()}
    assert lexicon.of_keys(Spans.of([np.array([MASK])]).keys).ids.tolist() == [MASK]


def test_symbols_of_a_dictionary_are_drawn_by_their_counts() -> None:
    words = Spans(np.arange(len(SYMBOLS)), np.ones(len(SYMBOLS), np.int64))
    known = KNOWN & (np.arange(len(SYMBOLS)) != C)  # beyond the vocabulary
    lexicon = Lexicon.counted(words, np.array([9, 9, 9, 9, 2, 0, 5, 1, 9]), known)
    assert counts(lexicon) == {(A,): 2, (D,): 1}, "B has no count"


def test_evenly_spaced_lines_of_a_large_text_are_sampled() -> None:
    dataset, sizes = text(*([i] * 9 for i in range(1000)))
    lines = sample_blocks(dataset, sizes, tokens=1000)
    assert lines.lengths.tolist() == [9] * 100
    assert lines.ids[::9].tolist() == list(range(0, 1000, 10))
    lines = sample_blocks(dataset, sizes, tokens=7500)
    assert lines.lengths.sum() + len(lines) == 7500
    assert set(np.diff(lines.ids[::9])) == {1, 2}
    assert len(sample_blocks(dataset, sizes, tokens=10_001)) == 1000
    assert len(sample_blocks(dataset, sizes).ids) == 9000


@pytest.mark.parametrize("lines", [[[UNK, UNK], []], [[]], []])
def test_text_without_words_is_rejected(lines: list[list[int]]) -> None:
    with pytest.raises(DataError, match="no words"):
        read_lexicon(*lines)
