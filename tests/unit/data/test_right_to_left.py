"""Right-to-left targets."""

from __future__ import annotations

import torch
from fairseq.data import Dictionary, LanguagePairDataset
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.dataset_sides import reverse_rows, reverse_sentence, reverse_targets
from fairseq_ssl.data.mixing import MixedPairs, Mixture
from tests.unit.data.in_memory import Rows
from tests.unit.models.tiny_models import EOS, PAD, batch

WORDS = st.lists(st.integers(4, 9), max_size=5)


@given(WORDS)
def test_end_symbol_of_a_reversed_sentence_stays_at_the_end(words: list[int]) -> None:
    for end in ([], [EOS]):
        reversed_ids = reverse_sentence(torch.tensor([*words, *end], dtype=torch.long), EOS)
        assert reversed_ids.tolist() == [*words[::-1], *end]


@given(st.lists(WORDS, min_size=1, max_size=4), st.booleans())
def test_padding_of_reversed_rows_stays_in_place(rows: list[list[int]], left: bool) -> None:
    reversed_rows = reverse_rows(batch(rows, left), PAD, EOS)
    assert reversed_rows.equal(batch([row[::-1] for row in rows], left))


SOURCES = [[4, 5, EOS], [6, EOS]]
TARGETS = [[7, 8, 9, EOS], [4, 5, EOS]]


def test_reverse_targets_does_not_change_sources() -> None:
    source, target, words = Rows(SOURCES), Rows(TARGETS), Dictionary()
    pairs = LanguagePairDataset(source, source.sizes, words, target, target.sizes, words)
    reverse_targets(pairs, EOS)
    found = pairs.collater([pairs[0], pairs[1]])
    assert found["target"].tolist() == [[9, 8, 7, EOS], [5, 4, EOS, PAD]]
    assert found["net_input"]["prev_output_tokens"].tolist() == [[EOS, 9, 8, 7], [EOS, 5, 4, PAD]]
    assert found["net_input"]["src_tokens"].tolist() == [[4, 5, EOS], [PAD, 6, EOS]]
    without_targets = LanguagePairDataset(source, source.sizes, words)
    reverse_targets(without_targets, EOS)
    assert without_targets.tgt is None


def test_reversed_mixture_follows_the_epoch() -> None:
    source_side, target_side = (
        Mixture([Rows(rows)], [1], [tag]) for rows, tag in ((SOURCES, 8), (TARGETS, None))
    )
    pairs = MixedPairs(source_side, Dictionary(), target_side, Dictionary())
    reverse_targets(pairs, EOS)
    for epoch, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True), 1):
        pairs.set_epoch(epoch)
        assert pairs[0]["source"].tolist() == [8, *source]
        assert pairs[0]["target"].tolist() == [*target[-2::-1], EOS]
        assert pairs.sizes.tolist() == [[len(source) + 1, len(target)]]
