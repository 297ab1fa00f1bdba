"""EditDataset: batches of sentences and labels, and the sentences of an epoch."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ssl.data.edit_dataset import EditDataset
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.errors import DataError
from tests.unit.data.in_memory import Rows

BOS, PAD, EOS = 0, 1, 2
KEEP, OTHER = 4, 5


def lines(*rows: list[int]) -> Rows:
    return Rows([*row, EOS] for row in rows)


def dataset(text: Rows, labels: Rows | None = None, **options: Any) -> EditDataset:
    words = OovDictionary()
    for word in "abcdef":
        words.add_symbol(word)
    if labels is not None:
        options |= {"labels": labels, "label_sizes": labels.sizes}
    return EditDataset(text, text.sizes, words, **options)


TEXT = lines([4, 5], [6], [7, 8, 9])
LABELS = lines([KEEP, OTHER, KEEP], [KEEP, KEEP], [OTHER, KEEP, KEEP, 7])


def test_batch_has_start_and_end_symbols_and_concatenated_labels() -> None:
    data = dataset(TEXT, LABELS)
    batch = data.collater([data[index] for index in range(3)])
    assert batch["id"].tolist() == [2, 0, 1]
    assert batch["net_input"]["src_tokens"].tolist() == [
        [BOS, 7, 8, 9, EOS],
        [BOS, 4, 5, EOS, PAD],
        [BOS, 6, EOS, PAD, PAD],
    ]
    assert batch["net_input"]["src_lengths"].tolist() == [5, 4, 3]
    assert batch["labels"].tolist() == [1, 0, 0, 3, 0, 1, 0, 0, 0]
    assert batch["ntokens"] == len(batch["labels"]) == 9
    assert batch["target"] is None


def test_corrected_text_is_the_target() -> None:
    data = dataset(TEXT, corrected=lines([4], [6, 6], [7]))
    batch = data.collater([data[0], data[1]])
    assert batch["target"].tolist() == [[4, EOS, PAD], [6, 6, EOS]]
    assert "labels" not in batch


def test_sentence_without_labels_is_excluded() -> None:
    data = dataset(TEXT, lines([KEEP, KEEP, KEEP], [], [KEEP] * 4), shuffle=False)
    assert data.ordered_indices().tolist() == [0, 2]


def test_wrong_number_of_labels_is_reported_with_the_line() -> None:
    with pytest.raises(DataError, match="Line 2 "):
        dataset(TEXT, lines([KEEP] * 3, [KEEP] * 3, [KEEP] * 4))
    with pytest.raises(DataError, match="labels have 2 lines"):
        dataset(TEXT, lines([KEEP] * 3, [KEEP] * 2))


def test_labels_of_another_dictionary_are_rejected() -> None:
    data = dataset(TEXT, lines([KEEP, 3, KEEP], [KEEP, KEEP], [KEEP] * 4))
    with pytest.raises(DataError, match="not in the edit dictionary"):
        data.collater([data[0]])


def test_each_epoch_samples_a_share_of_the_sentences_without_edits() -> None:
    count = 2000
    text = lines(*([[4]] * count))
    labels = lines(*([KEEP, OTHER if index % 2 else KEEP] for index in range(count)))
    data = dataset(text, labels, unchanged_share=0.3)
    epochs = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        epochs.append(set(data.ordered_indices().tolist()))
    assert epochs[0] == epochs[2] != epochs[1]
    changed = set(range(1, count, 2))
    assert changed <= epochs[0]
    assert 0.25 < len(epochs[0] - changed) / (count / 2) < 0.35
    assert not data.can_reuse_epoch_itr_across_epochs
    assert dataset(text, labels).can_reuse_epoch_itr_across_epochs


def test_special_symbols_within_the_text_become_unk() -> None:
    data = dataset(lines([BOS, EOS, 4, PAD]), lines([KEEP] * 5))
    batch = data.collater([data[0]])
    assert batch["net_input"]["src_tokens"].tolist() == [[BOS, 3, 3, 4, 3, EOS]]


def test_empty_sentence_has_one_label() -> None:
    data = dataset(lines([], [4]), lines([OTHER], [KEEP, KEEP]), shuffle=False)
    assert data.ordered_indices().tolist() == [0, 1]
    assert data.collater([data[0], data[1]])["labels"].tolist() == [0, 0, 1]
