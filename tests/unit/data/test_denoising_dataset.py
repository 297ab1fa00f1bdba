"""Denoising dataset: noise is reproducible, and batches have fairseq's format."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset
from torch import Tensor
from torch.utils.data import DataLoader

from fairseq_ssl.data.id_noise import (
    IdNoise,
    Lexicon,
    OnlineDenoisingDataset,
    WordBoundaries,
    parse_id_noise,
    sample_blocks,
)
from fairseq_ssl.errors import DataError
from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch, repeated

PAD, EOS = 1, 2
WORDS = 20


def dictionary() -> Dictionary:
    words = Dictionary()
    for i in range(WORDS):
        words.add_symbol(f"w{i}@@" if i % 3 == 0 else f"w{i}")
    words.add_symbol("<mask>")
    return words


def sentences(count: int = 200, seed: int = 1) -> list[Tensor]:
    """Return sentences of 0 to 12 random words."""
    random = np.random.default_rng(seed)
    lines = [random.integers(4, 4 + WORDS, random.integers(13)) for _ in range(count)]
    return [torch.tensor([*line, EOS]) for line in lines]


def dataset(
    noise: Any = "direct:keep=0.5,denoise",
    lines: list[Tensor] | None = None,
    renew: bool = True,
    seed: int = 3,
    subwords: str = "subword-nmt",
    **options: Any,
) -> OnlineDenoisingDataset:
    """Return a dataset of `lines`. `noise` is a specification or a function."""
    lines = sentences() if lines is None else lines
    sizes = np.array([len(line) for line in lines])
    words, text = dictionary(), ListDataset(lines, sizes)
    mask = words.index("<mask>")
    boundaries = WordBoundaries.of(words.symbols, subwords)
    counted, _ = boundaries.split_words(sample_blocks(text, sizes))
    known = (np.arange(len(words)) > 3) & (np.arange(len(words)) != mask)
    lexicon = Lexicon.counted(counted, np.ones(len(counted), np.int64), known, mask)
    if isinstance(noise, str):
        on_ids = IdNoise.of(parse_id_noise(noise), boundaries, lexicon, mask, 1000)
    else:
        on_ids = IdNoise(noise, boundaries, lexicon, 1000)
    return OnlineDenoisingDataset(text, sizes, words, on_ids, seed, renew, **options)


Rows = dict[int, tuple[list[int], list[bool], list[int]]]


def rows(batch: dict[str, Any]) -> Rows:
    """Return (source, changed, target) of each sentence, without padding."""
    result = {}
    columns = (batch["net_input"]["src_tokens"], batch["changed"], batch["target"])
    for index, source, changed, target in zip(batch["id"].tolist(), *columns, strict=True):
        is_token = target != PAD
        assert not changed[~is_token].any()
        result[index] = (
            source[source != PAD].tolist(),
            changed[is_token].tolist(),
            target[is_token].tolist(),
        )
    return result


def batch_of(data: OnlineDenoisingDataset, *indices: int) -> Rows:
    return rows(data.collater([data[index] for index in indices]))


@pytest.mark.parametrize("subwords", ["subword-nmt", "none"])
def test_noise_of_a_sentence_does_not_depend_on_the_batch(subwords: str) -> None:
    data = dataset(subwords=subwords)
    data.set_epoch(4)
    together = batch_of(data, *range(60))
    for index in range(60):
        assert batch_of(data, index) == {index: together[index]}
    assert batch_of(data, 59, 3, 17) == {index: together[index] for index in (59, 3, 17)}
    for index, (source, changed, target) in together.items():
        assert target == data.tgt[index].tolist()
        assert (source[-1], changed[-1]) == (EOS, False)
        assert EOS not in source[:-1]
    assert sum(source != target for source, _, target in together.values()) > 40


def test_unchanged_words_are_a_subsequence_of_the_source() -> None:
    for source, changed, target in batch_of(dataset(), *range(200)).values():
        remaining = iter(source)
        for word, is_changed in zip(target, changed, strict=True):
            assert is_changed or word in remaining


def test_noise_depends_on_epoch_and_seed() -> None:
    data, other = dataset(), dataset(seed=4)
    batches = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        batches.append(batch_of(data, *range(50)))
    other.set_epoch(1)
    assert batches[0] == batches[2]
    assert batches[0] != batches[1]
    assert batches[0] != batch_of(other, *range(50))


def test_validation_noise_does_not_depend_on_the_epoch() -> None:
    data = dataset(renew=False)
    first = batch_of(data, *range(50))
    data.set_epoch(7)
    assert batch_of(data, *range(50)) == first
    training = dataset()
    training.set_epoch(1)
    assert batch_of(training, *range(50)) != first


@pytest.mark.parametrize("workers", [0, 2])
def test_persistent_workers_see_the_next_epoch(workers: int) -> None:
    data, plain = dataset(), dataset()
    loader: DataLoader[Any] = DataLoader(
        data,
        batch_size=40,
        collate_fn=data.collater,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    for epoch in (1, 2, 5):
        data.set_epoch(epoch)
        plain.set_epoch(epoch)
        loaded = {index: row for batch in loader for index, row in rows(batch).items()}
        assert loaded == batch_of(plain, *range(200))


def test_pickled_dataset_gives_the_same_batches() -> None:
    data = dataset()
    data.set_epoch(2)
    assert batch_of(pickle.loads(pickle.dumps(data)), 1, 2) == batch_of(data, 1, 2)


def drop_second_and_double_third(clean: TokenBatch, draws: Random) -> NoisedBatch:
    """Delete the second word of each line and repeat the third."""
    times = np.select([clean.place == 1, clean.place == 2], [0, 2], 1)
    noisy = repeated(clean, times)
    twice = np.flatnonzero(noisy.origin[1:] == noisy.origin[:-1]) + 1
    noisy.origin[twice] = -1
    return noisy


def test_batch_worked_out_by_hand() -> None:
    # 5, 8, 11 are words. 4+5 is a word of two subwords. The second line has the longest source.
    lines = [[5, 4, 5], [5, 8, 11, 11], [8, 4, 5, 11], []]
    ended = [torch.tensor([*line, EOS]) for line in lines]
    left, right = (
        dataset(drop_second_and_double_third, ended, left_pad_target=side).collater
        for side in (True, False)
    )
    data = dataset(drop_second_and_double_third, ended)
    batch = right([data[i] for i in (3, 0, 1, 2)])
    row_of = {i: row for row, i in enumerate(batch["id"].tolist())}
    source = batch["net_input"]["src_tokens"]
    assert source[row_of[1]].tolist() == [5, 11, 11, 11, EOS]
    assert source[row_of[2]].tolist() == [PAD, 8, 11, 11, EOS]
    assert source[row_of[0]].tolist() == [PAD, PAD, PAD, 5, EOS]
    assert source[row_of[3]].tolist() == [PAD, PAD, PAD, PAD, EOS]
    assert batch["net_input"]["src_lengths"].tolist() == [5, 4, 2, 1]
    yes, no = True, False
    assert batch["changed"].dtype == torch.bool
    assert batch["changed"][row_of[0]].tolist() == [no, yes, yes, no, no]
    assert batch["changed"][row_of[1]].tolist() == [no, yes, no, no, no]
    assert batch["changed"][row_of[2]].tolist() == [no, yes, yes, no, no]
    assert batch["changed"][row_of[3]].tolist() == [no] * 5
    assert batch["target"][row_of[0]].tolist() == [5, 4, 5, EOS, PAD]
    assert batch["net_input"]["prev_output_tokens"][row_of[0]].tolist() == [EOS, 5, 4, 5, PAD]
    assert batch["ntokens"] == 4 + 5 + 5 + 1

    batch = left([data[i] for i in range(4)])
    row_of = {i: row for row, i in enumerate(batch["id"].tolist())}
    assert batch["changed"][row_of[0]].tolist() == [no, no, yes, yes, no]
    assert batch["target"][row_of[0]].tolist() == [PAD, 5, 4, 5, EOS]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"left_pad_source": False},
        {"left_pad_target": True, "pad_to_multiple": 8},
    ],
)
@pytest.mark.parametrize("lengths", [None, {"source": 30, "target": 25}])
def test_batch_has_the_format_of_language_pair_dataset(
    options: dict[str, Any], lengths: dict[str, int] | None
) -> None:
    data = dataset(**options)
    batch = data.collater([data[index] for index in range(40)], lengths)
    noisy = rows(batch)
    sources = [torch.tensor(noisy[index][0]) for index in range(40)]
    sizes, words = np.array([len(source) for source in sources]), dictionary()
    targets = [data.tgt[index] for index in range(40)]
    pairs = LanguagePairDataset(sources, sizes, words, targets, sizes, words, **options)
    stock = pairs.collater([pairs[index] for index in range(40)], lengths)
    del batch["changed"]
    assert batch.keys() == stock.keys()
    assert batch["net_input"].keys() == stock["net_input"].keys()
    assert (batch["ntokens"], batch["nsentences"]) == (stock["ntokens"], stock["nsentences"])
    assert batch["net_input"]["src_lengths"].equal(stock["net_input"]["src_lengths"])
    # the order of sentences of equal length is not defined
    ours, theirs = batch["id"].argsort(), stock["id"].argsort()
    for part, expected in ((batch, stock), (batch["net_input"], stock["net_input"])):
        for name, tensor in part.items():
            if torch.is_tensor(tensor):
                assert tensor.dtype == expected[name].dtype
                assert tensor[ours].equal(expected[name][theirs]), name


def test_additional_padding_and_empty_batch() -> None:
    data = dataset(pad_to_multiple=8)
    batch = data.collater([data[i] for i in range(5)])
    assert batch["changed"].shape == batch["target"].shape
    assert batch["target"].shape[1] % 8 == 0
    batch = dataset().collater([data[0]], {"source": 30, "target": 40})
    assert batch["changed"].shape == batch["target"].shape == (1, 40)
    assert data.collater([]) == {}


def test_sizes_are_clean_lengths() -> None:
    data = dataset()
    sizes = np.array([len(line) for line in sentences()])
    assert data.num_tokens_vec(np.arange(200)).tolist() == sizes.tolist()
    kept, dropped = data.filter_indices_by_size(np.arange(200), (9, 9))
    assert kept.tolist() == np.flatnonzero(sizes <= 9).tolist()
    assert len(kept) + len(dropped) == len(data) == 200
    assert (np.diff(sizes[data.ordered_indices()]) >= 0).all()


def test_sentence_without_end_of_sentence_id_is_rejected() -> None:
    data = dataset()
    samples = [data[0], {"id": 8, "target": torch.tensor([5, 5])}]
    with pytest.raises(DataError, match="Sentence 8 of the data does not end"):
        data.collater(samples)


def test_noise_rates_in_batches() -> None:
    lines = [torch.tensor([*range(4, 24), EOS])] * 600
    data = dataset("direct", lines, subwords="none")
    mask = 4 + WORDS
    data.set_epoch(1)
    masked = kept = longer = 0
    for source, changed, _ in batch_of(data, *range(600)).values():
        masked += source.count(mask)
        kept += WORDS - sum(changed)
        longer += len(source) - 1 - WORDS
    total = 600 * WORDS
    # of the 0.5, one half is deleted; the other half is kept, with a word inserted after it
    for count, share in ((masked, 0.3), (kept, 0.2 + 0.25)):
        assert abs(count - share * total) < 4 * (share * (1 - share) * total) ** 0.5
    assert abs(longer) < 4 * (0.5 * total) ** 0.5
