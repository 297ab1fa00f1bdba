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
from tests.unit.models.tiny_models import EOS, PAD, batch, previous

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
    noise: Any = "direct:keep=0.5,shuffle",
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


def rows(found: dict[str, Any]) -> Rows:
    """Return (source, changed, target) of each sentence, without padding."""
    result = {}
    columns = (found["net_input"]["src_tokens"], found["changed"], found["target"])
    for index, source, changed, target in zip(found["id"].tolist(), *columns, strict=True):
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


def test_noise_depends_on_epoch_and_seed() -> None:
    data, fixed = dataset(), dataset(renew=False)
    found = {}
    for epoch in (1, 2):
        for name, one in (("renewed", data), ("fixed", fixed), ("seed", dataset(seed=4))):
            one.set_epoch(epoch)
            found[name, epoch] = batch_of(one, *range(50))
    assert found["fixed", 1] == found["fixed", 2], "for validation"
    different = [found[key] for key in found if key != ("fixed", 2)]
    assert all(different.count(one) == 1 for one in different)
    data.set_epoch(1)
    for same in (data, pickle.loads(pickle.dumps(data))):
        assert batch_of(same, *range(50)) == found["renewed", 1]


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


def drop_second_and_double_third(clean: TokenBatch, draws: Random) -> NoisedBatch:
    """Delete the second word of each line and repeat the third."""
    times = np.select([clean.place == 1, clean.place == 2], [0, 2], 1)
    noisy = repeated(clean, times)
    twice = np.flatnonzero(noisy.origin[1:] == noisy.origin[:-1]) + 1
    noisy.origin[twice] = -1
    return noisy


@pytest.mark.parametrize("left_target", [False, True])
def test_batch_worked_out_by_hand(left_target: bool) -> None:
    # 5, 8, 11 are words. 4+5 is a word of two subwords. The second line has the longest source.
    lines = [[5, 4, 5], [5, 8, 11, 11], [8, 4, 5, 11], []]
    noisy = [[5], [5, 11, 11, 11], [8, 11, 11], []]
    changed = [[0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0]]
    ended = [torch.tensor([*line, EOS]) for line in lines]
    data = dataset(drop_second_and_double_third, ended, left_pad_target=left_target)
    found = data.collater([data[i] for i in (3, 0, 1, 2)])
    order, inputs = found["id"].tolist(), found["net_input"]
    assert inputs["src_tokens"].equal(batch([noisy[i] for i in order], left=True))
    assert inputs["src_lengths"].tolist() == [len(noisy[i]) + 1 for i in order] == [5, 4, 2, 1]
    assert found["target"].equal(batch([lines[i] for i in order], left_target))
    assert inputs["prev_output_tokens"].equal(previous([lines[i] for i in order], left_target))
    is_token = found["target"].ne(PAD)
    assert found["changed"].dtype == torch.bool
    assert not found["changed"][~is_token].any()
    assert found["changed"][is_token].tolist() == [flag == 1 for i in order for flag in changed[i]]
    assert found["ntokens"] == 4 + 5 + 5 + 1


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
    found = data.collater([data[index] for index in range(40)], lengths)
    noisy = rows(found)
    sources = [torch.tensor(noisy[index][0]) for index in range(40)]
    sizes, words = np.array([len(source) for source in sources]), dictionary()
    targets = [data.tgt[index] for index in range(40)]
    pairs = LanguagePairDataset(sources, sizes, words, targets, sizes, words, **options)
    stock = pairs.collater([pairs[index] for index in range(40)], lengths)
    del found["changed"]
    assert found.keys() == stock.keys()
    assert found["net_input"].keys() == stock["net_input"].keys()
    assert (found["ntokens"], found["nsentences"]) == (stock["ntokens"], stock["nsentences"])
    assert found["net_input"]["src_lengths"].equal(stock["net_input"]["src_lengths"])
    # the order of sentences of equal length is not defined
    ours, theirs = found["id"].argsort(), stock["id"].argsort()
    for part, expected in ((found, stock), (found["net_input"], stock["net_input"])):
        for name, tensor in part.items():
            if torch.is_tensor(tensor):
                assert tensor.dtype == expected[name].dtype
                assert tensor[ours].equal(expected[name][theirs]), name


def test_sizes_are_clean_lengths() -> None:
    data = dataset()
    sizes = np.array([len(line) for line in sentences()])
    assert data.num_tokens_vec(np.arange(200)).tolist() == sizes.tolist()
    kept, _ = data.filter_indices_by_size(np.arange(200), (9, 9))
    assert kept.tolist() == np.flatnonzero(sizes <= 9).tolist()
    assert (np.diff(sizes[data.ordered_indices()]) >= 0).all()


def test_sentence_without_end_of_sentence_id_is_rejected() -> None:
    data = dataset()
    samples = [data[0], {"id": 8, "target": torch.tensor([5, 5])}]
    with pytest.raises(DataError, match="Sentence 8 of the data, counted from 0, does not end"):
        data.collater(samples)
