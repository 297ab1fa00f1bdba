"""Mixtures of data sets, compared with copied lists of sentences and with fairseq's batches."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fairseq.data import LanguagePairDataset
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.data import mixing
from fairseq_ssl.data.mixing import MixedPairs, Mixture, mixture_counts
from tests.unit.data.in_memory import Rows
from tests.unit.models.tiny_models import dictionary

TAG = 9


def sentences(number: int, size: int) -> Rows:
    """Return a set of sentences: sentence k of set s is [s, k, ...]."""
    return Rows([number, k, *[7] * (k % 3)] for k in range(size))


def repeated(parts: list[Rows], counts: list[int], epochs: int) -> list[list[list[int]]]:
    """Return the sentences of each epoch, taken from an infinite repetition of each set."""
    rows: list[list[list[int]]] = []
    for epoch in range(epochs):
        rows.append([])
        for part, count in zip(parts, counts, strict=True):
            repetition = (row.tolist() for _ in range(10**9) for row in part)
            rows[-1] += islice(repetition, epoch * count, (epoch + 1) * count)
    return rows


@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 20)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_mixture_is_equal_to_copied_sentences(sets: list[tuple[int, int]], epochs: int) -> None:
    parts = [sentences(number, size) for number, (size, _) in enumerate(sets)]
    counts = [size + more for size, more in sets]
    mixture = Mixture(parts, counts, [None, TAG, None, TAG][: len(parts)])
    for epoch, expected in enumerate(repeated(parts, counts, epochs), 1):
        mixture.set_epoch(epoch)
        found = [mixture[k].tolist() for k in range(len(mixture))]
        tagged = [[TAG, *row] if row[0] % 2 else row for row in expected]
        assert found == tagged
        assert mixture.sizes.tolist() == [len(row) for row in tagged]


@pytest.mark.parametrize(("size", "count"), [(10_000, 9), (12_000, 377), (10_007, 6000)])
def test_epoch_samples_all_parts_of_a_large_set(size: int, count: int) -> None:
    """The maximum gap between sampled indices is at most 3 times the mean gap."""
    mixture = Mixture([Rows([k, *[0] * (k % 5)] for k in range(size))], [count], [None])
    for epoch in (1, 2, 9):
        mixture.set_epoch(epoch)
        indices = [int(mixture[k][0]) for k in range(count)]
        assert mixture.sizes.tolist() == [1 + index % 5 for index in indices]
        gaps = np.diff(sorted(indices), append=min(indices) + size)
        assert gaps.min() > 0
        assert gaps.max() <= 3 * size / count


@given(
    st.lists(st.floats(0.01, 10), min_size=1, max_size=4),
    st.integers(1, 1000),
)
def test_counts_add_up_to_the_total(weights: list[float], total: int) -> None:
    counts = mixture_counts([5] * len(weights), weights, total)
    assert sum(counts) == total
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - weight / sum(weights) * total) <= 1


def test_ratios_of_the_thesis() -> None:
    assert mixture_counts([5_000, 24_000], [1, 1]) == [24_000, 24_000]
    assert mixture_counts([1, 3], [0.7, 0.7]) == [3, 3], "rounded"
    assert mixture_counts([5_000, 24_000, 24_000], [1, 0.5, 0.5]) == [48_000, 24_000, 24_000]
    assert mixture_counts([44_000_000, 328_000_000], [1, 1], 10_000_000) == [5_000_000, 5_000_000]


@pytest.mark.parametrize(("size", "count"), [(7, 3), (100, 8), (3, 7)])
def test_all_sentences_are_used_equally_often(size: int, count: int) -> None:
    mixture = Mixture([sentences(0, size)], [count], [None])
    uses: Counter[int] = Counter()
    for epoch in range(1, 40):
        mixture.set_epoch(epoch)
        uses.update(int(mixture[k][1]) for k in range(len(mixture)))
        assert max(uses.values()) - min(uses[k] for k in range(size)) <= 1


def test_pairs_stay_aligned() -> None:
    source, target = ([sentences(0, 5), sentences(1, 3)] for _ in range(2))
    pairs = MixedPairs(
        *(Mixture(source, [4, 4], [None, TAG]), dictionary()),
        *(Mixture(target, [4, 4], [None, None]), dictionary()),
    )
    assert not pairs.can_reuse_epoch_itr_across_epochs
    orders = []
    for epoch in (1, 2):
        pairs.set_epoch(epoch)
        orders.append([pairs[k]["target"].tolist() for k in range(len(pairs))])
        for k in range(len(pairs)):
            one, other = pairs[k]["source"].tolist(), pairs[k]["target"].tolist()
            assert one == ([TAG, *other] if other[0] else other)
            assert pairs.size(k) == (len(one), len(other))
            assert pairs.num_tokens(k) == max(len(one), len(other))
    assert orders[0] != orders[1]
    assert Mixture(source, [5, 6], [None, None]).is_constant


class Lengths:
    """Random sentence lengths without sentences."""

    def __init__(self, size: int, max_length: int, seed: int) -> None:
        self.sizes = np.random.default_rng(seed).integers(1, max_length + 1, size).astype(np.int32)

    def __len__(self) -> int:
        return len(self.sizes)


@given(
    st.integers(1, 400),
    st.sampled_from([1, 9, 70_000]),
    st.sampled_from([1, 8]),
    st.sampled_from([None, 5]),
    st.sampled_from([7, 64, mixing.MIX_CHUNK]),
)
@settings(max_examples=200)
def test_batches_are_equal_to_fairseq(
    size: int, max_length: int, multiple: int, max_sentences: int | None, chunk: int
) -> None:
    """fairseq sorts, filters and batches all pairs at once, with 64-bit indices."""
    words = dictionary()
    source, target = (Mixture([Lengths(size, max_length, seed)], [size], [None]) for seed in (1, 2))
    sides = (source, source.sizes, words, target, target.sizes, words)
    stock = LanguagePairDataset(*sides)
    ours = MixedPairs(source, words, target, words)
    assert ours.sizes.tolist() == stock.sizes.tolist()
    results = []
    with patch.object(mixing, "MIX_CHUNK", chunk):
        for pairs in (stock, ours):
            np.random.seed(size)
            indices = pairs.ordered_indices()
            ordered = indices.tolist()
            limits = (max_length // 2 + 1, max_length)
            kept, ignored = pairs.filter_indices_by_size(indices, limits)
            batches: list[Any] = []
            if len(kept):
                batches = pairs.batch_by_size(
                    kept,
                    max_tokens=3 * max_length,
                    max_sentences=max_sentences,
                    required_batch_size_multiple=multiple,
                )
            results.append((ordered, list(ignored), [batch.tolist() for batch in batches]))
    assert results[0] == results[1]


@pytest.mark.parametrize("max_length", [1024, 27])
def test_memory_per_pair(max_length: int) -> None:
    """fairseq needs 40 bytes per pair at peak and 24 during training.

    It holds the batches of the last epoch while it forms new ones. Short limits skip pairs.
    """
    size = 250_000
    sides = [Mixture([Lengths(size + 1, 30, seed)], [size], [None]) for seed in (1, 2)]
    peaks: list[float] = []
    batches: list[Any] = []
    ignored: Any = []
    tracemalloc.start()
    with patch.object(mixing, "MIX_CHUNK", 1 << 11):
        pairs = MixedPairs(sides[0], dictionary(), sides[1], dictionary())
        for epoch in (1, 2):
            tracemalloc.reset_peak()
            pairs.set_epoch(epoch)
            limits = (max_length, max_length)
            kept, ignored = pairs.filter_indices_by_size(pairs.ordered_indices(), limits)
            batches = pairs.batch_by_size(kept, max_tokens=4000, required_batch_size_multiple=8)
            del kept
            peaks.append(tracemalloc.get_traced_memory()[1] / size)
    held = tracemalloc.get_traced_memory()[0] / size
    tracemalloc.stop()
    assert len(batches) > 500
    assert (len(ignored) > 25_000) == (max_length < 30)
    assert held < 9.5 + 4 * len(ignored) / size
    assert peaks[0] < 11
    assert peaks[1] < 16
