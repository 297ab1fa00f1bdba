"""Sentences turned around, their ends left where they are."""

from __future__ import annotations

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_ssl.data.dataset_sides import reverse_rows, reverse_sentence, reverse_targets
from fairseq_ssl.data.mixing import MixedPairs, Mixture

PAD, EOS = 1, 2
WORDS = st.lists(st.integers(4, 9), max_size=5)


@given(WORDS)
def test_a_sentence_is_turned_around_and_its_end_is_not(words: list[int]) -> None:
    for end in ([], [EOS]):
        turned = reverse_sentence(torch.tensor([*words, *end], dtype=torch.long), EOS)
        assert turned.tolist() == [*words[::-1], *end]


@given(st.lists(WORDS, min_size=1, max_size=4), st.booleans())
def test_rows_are_turned_around_within_their_padding(rows: list[list[int]], left: bool) -> None:
    length = max(map(len, rows)) + 1

    def padded(words: list[int]) -> list[int]:
        padding = [PAD] * (length - len(words) - 1)
        return [*padding, *words, EOS] if left else [*words, EOS, *padding]

    turned = reverse_rows(torch.tensor([padded(row) for row in rows]), PAD, EOS)
    assert turned.tolist() == [padded(row[::-1]) for row in rows]


class Sentences:
    """Stands for what fairseq-preprocess writes."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = [torch.tensor(row) for row in rows]
        self.sizes = np.array([len(row) for row in rows], np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, k: int) -> Tensor:
        return self.rows[k]


SOURCES = [[4, 5, EOS], [6, EOS]]
TARGETS = [[7, 8, 9, EOS], [4, 5, EOS]]


def test_only_the_targets_of_pairs_are_turned_around() -> None:
    source, target, words = Sentences(SOURCES), Sentences(TARGETS), Dictionary()
    pairs = LanguagePairDataset(source, source.sizes, words, target, target.sizes, words)
    reverse_targets(pairs, EOS)
    batch = pairs.collater([pairs[0], pairs[1]])
    assert batch["target"].tolist() == [[9, 8, 7, EOS], [5, 4, EOS, PAD]]
    assert batch["net_input"]["prev_output_tokens"].tolist() == [[EOS, 9, 8, 7], [EOS, 5, 4, PAD]]
    assert batch["net_input"]["src_tokens"].tolist() == [[4, 5, EOS], [PAD, 6, EOS]]
    alone = LanguagePairDataset(source, source.sizes, words)
    reverse_targets(alone, EOS)
    assert alone.tgt is None


def test_mixtures_go_on_with_other_epochs() -> None:
    source, target = ([Sentences(rows)] for rows in (SOURCES, TARGETS))
    sides = (Mixture(source, [1], [8]), Dictionary(), Mixture(target, [1], [None]), Dictionary())
    pairs = MixedPairs(*sides)
    reverse_targets(pairs, EOS)
    for epoch, (read, written) in enumerate(zip(SOURCES, TARGETS, strict=True), 1):
        pairs.set_epoch(epoch)
        assert pairs[0]["source"].tolist() == [8, *read]
        assert pairs[0]["target"].tolist() == [*written[-2::-1], EOS]
        assert pairs.sizes.tolist() == [[len(read) + 1, len(written)]]
