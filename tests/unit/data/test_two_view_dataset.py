"""Datasets of texts in two views, with labels or teacher labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fairseq import utils

import fairseq_ssl

fairseq_ssl.register()
from fairseq_ssl.data.teacher_labels import open_teacher_labels  # noqa: E402
from fairseq_ssl.data.two_view_dataset import (  # noqa: E402
    BUCKET_RATIO,
    PIECES,
    WORDS,
    TwoViewDataset,
    View,
)
from fairseq_ssl.errors import DataError  # noqa: E402
from tests.unit.data.in_memory import Rows  # noqa: E402

PAD, EOS = 1, 2


def view(name: str, texts: list[list[int]]) -> View:
    return View(name, Rows([*text, EOS] for text in texts), PAD, EOS)


def test_batch_has_both_views_padded_on_the_right() -> None:
    data = TwoViewDataset(
        [view(WORDS, [[4, 5, 6], [7], []]), view(PIECES, [[8, 9, 10, 11], [12, 13], []])],
        labels=np.array([1, 0, 1]),
        max_length=3,
    )
    batch = data.collater([data[index] for index in range(3)])
    assert batch["net_input"]["src_tokens"].tolist() == [[5, 6, 2], [7, 2, PAD], [2, PAD, PAD]]
    assert batch["net_input"]["src_lengths"].tolist() == [3, 2, 1]
    pieces = [[8, 9, 10, 11], [12, 13, PAD, PAD], [2, PAD, PAD, PAD]]
    assert batch["net_input"]["piece_tokens"].tolist() == pieces
    assert batch["target"].tolist() == [1, 0, 1]
    assert (batch["nsentences"], batch["ntokens"]) == (3, 6)
    assert data.sizes.tolist() == [4, 2, 1]


def test_texts_are_filtered_by_the_lengths_that_each_model_reads() -> None:
    """An expert of 511 positions reads the last 400 words, and its imitators all subwords."""
    views = [view(WORDS, [[4] * 650, [4] * 300]), view(PIECES, [[5] * 700, [5] * 330])]
    data = TwoViewDataset(views, labels=np.array([0, 1]), max_length=400)
    everything = np.arange(2)
    max_tokens = utils.resolve_max_positions(None, (511, None), 4000)
    for limits in ((511, None), max_tokens):
        kept, long = data.filter_indices_by_size(everything, limits)
        assert (kept.tolist(), long) == ([0, 1], [])
    assert data.size(0) == (400, 700)
    for limit, expected in ((511, [1]), ((511, 600), [1]), ((350, None), [1]), (4000, [0, 1])):
        assert data.filter_indices_by_size(everything, limit)[0].tolist() == expected
    whole = TwoViewDataset(views, labels=np.array([0, 1]))
    assert whole.filter_indices_by_size(everything, (511, None))[0].tolist() == [1]


def test_unlabeled_texts_that_are_too_long_are_not_sampled() -> None:
    unlabeled = TwoViewDataset([view(WORDS, [[7] * 30, [7] * 9, [8] * 15])], shuffle=False)
    words = [view(WORDS, [[5] * 10, [6] * 30])]
    data = TwoViewDataset(
        words, labels=np.array([0, 1]), unlabeled=unlabeled, unlabeled_per_text=20
    )
    assert data.filter_indices_by_size(np.arange(2), 16)[0].tolist() == [0]
    assert {len(text[WORDS]) for text in data[0]["unlabeled"]} == {10, 16}
    with pytest.raises(DataError, match="All unlabeled texts are longer than"):
        data.filter_indices_by_size(np.arange(2), 5)


def test_order_is_shuffled_within_buckets_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(0, 60, 200)
    data = TwoViewDataset([view(WORDS, [[4] * int(length) for length in lengths])], seed=3)
    orders = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        orders.append(data.ordered_indices())
        assert sorted(orders[-1]) == list(range(200))
        sizes = data.sizes[orders[-1]]
        assert (np.maximum.accumulate(sizes) / sizes).max() < BUCKET_RATIO
    assert orders[0].tolist() == orders[2].tolist() != orders[1].tolist()
    plain = TwoViewDataset(data.views, shuffle=False)
    assert (np.diff(plain.sizes[plain.ordered_indices()]) >= 0).all()


def test_views_with_different_numbers_of_lines_are_rejected() -> None:
    for views, labels in (
        ([view(WORDS, [[4], [5]]), view(PIECES, [[4]])], None),
        ([view(WORDS, [[4]])], np.array([0, 1])),
    ):
        with pytest.raises(DataError, match="lines of words, but"):
            TwoViewDataset(views, labels=labels)


def test_unlabeled_texts_are_sampled_again_in_each_epoch() -> None:
    others = TwoViewDataset([view(WORDS, [[4 + index] for index in range(50)])], shuffle=False)
    data = TwoViewDataset([view(WORDS, [[4], [5, 6]])], unlabeled=others, unlabeled_per_text=3)
    samples = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        batch = data.collater([data[0], data[1]])
        assert batch["unlabeled"]["src_tokens"].shape == (6, 2)
        samples.append(batch["unlabeled"]["src_tokens"].tolist())
    assert samples[0] == samples[2] != samples[1]


def test_teacher_labels_as_array_parts_or_text(tmp_path: Path) -> None:
    rows = np.array([[0.25, 0.75], [1, 0], [0.5, 0.5]])
    np.save(tmp_path / "whole.npy", rows.astype(np.float16))
    (tmp_path / "parts.npy").mkdir()
    np.save(tmp_path / "parts.npy/part-00000.npy", rows[:1].astype(np.float16))
    np.save(tmp_path / "parts.npy/part-00001.npy", rows[1:].astype(np.float32))
    (tmp_path / "text.txt").write_text("0.25 0.75\n1\t0\n5e-1 0.5\n")
    teacher = None
    for split in ("whole", "parts", "text"):
        teacher = open_teacher_labels(tmp_path, split, 2)
        assert teacher is not None
        assert np.array_equal(np.stack([teacher[line] for line in range(len(teacher))]), rows)
    assert open_teacher_labels(tmp_path, "none", 2) is None
    data = TwoViewDataset([view(PIECES, [[4], [5], [6]])], teacher=teacher, lines=np.array([0, 2]))
    batch = data.collater([data[0], data[1]])
    assert batch["teacher"].tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert batch["net_input"]["piece_tokens"].tolist() == [[4], [6]]


@pytest.mark.parametrize(
    ("name", "content", "culprit"),
    [
        ("a.npy", np.array([[0.5, 0.5], [0.5, 0.4]]), "Line 2 of .*a.npy"),
        ("a.npy", np.array([[1.5, -0.5]]), "Line 1 of .*a.npy"),
        ("a.npy", np.array([[1.0, 0.0, 0.0]]), "a.npy"),
        ("a.npy/_job/part.npy", np.array([[1.0, 0.0]]), "a.npy is not complete"),
        ("a.txt", "1 0\nx 1\n", "a.txt:2"),
        ("a.txt", "1 0\n1\n", "a.txt:2"),
    ],
)
def test_invalid_probabilities_are_rejected(
    name: str, content: Any, culprit: str, tmp_path: Path
) -> None:
    if isinstance(content, str):
        (tmp_path / name).write_text(content)
    else:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, content)
    with pytest.raises(DataError, match=culprit):
        open_teacher_labels(tmp_path, "a", 2)
