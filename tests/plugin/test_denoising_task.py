"""The denoising task: loading of text, noise, and rejected options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError, DataError, FairseqSslError
from fairseq_ssl.noise.block_noise import WITHIN_WORDS
from tests.conftest import Run

fairseq_ssl.register()
from fairseq import tasks  # noqa: E402
from fairseq.data import indexed_dataset  # noqa: E402

from tests.plugin.runs import parsed, task_of  # noqa: E402

EOS = 2
# Warnings of Hydra and the data loader.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def mono(run: Run, toy_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source side of the toy corpus, with the mask token in the dictionary."""
    folder = tmp_path_factory.mktemp("mono")
    prefixes = [f"--{split}pref={toy_text / split}" for split in ("train", "valid", "test")]
    run("fairseq-preprocess", "--only-source", "-s", "words", *prefixes, "--destdir", folder)
    with (folder / "dict.words.txt").open("a") as dictionary:
        dictionary.write("<mask> 1\n")
    return folder


def task(data: Path | str, *flags: str) -> Any:
    """Return the task as fairseq-train sets it up."""
    return task_of(data, "--task", "denoising_pretraining", "--arch", "transformer_tiny", *flags)


def loaded(data: Path | str, split: str, *flags: str, epoch: int = 1) -> Any:
    """Return a split as the task loads it, with all numbered parts."""
    one = task(data, *flags)
    one.load_dataset(split, epoch=epoch, combine=True)
    return one.dataset(split)


def text_of(dataset: Any) -> list[str]:
    words = dataset.tgt_dict
    return [words.string(dataset[number]["target"]) for number in range(len(dataset))]


Row = tuple[int, list[int], list[bool]]


def rows(batches: Iterator[dict[str, Any]]) -> list[Row]:
    """Return id, source and noised positions of each sentence, in the order of the batches."""
    return [
        (number, source[source != 1].tolist(), changed.tolist())
        for batch in batches
        for number, source, changed in zip(
            batch["id"].tolist(), batch["net_input"]["src_tokens"], batch["changed"], strict=True
        )
    ]


def epochs(one: Any, split: str, *wanted: int, **changes: Any) -> list[list[Row]]:
    """Return the rows of fairseq's iterator in these epochs."""
    one.load_dataset(split, combine=split == "train")
    iterator = one.get_batch_iterator(one.dataset(split), max_tokens=300, **changes)
    found = []
    for epoch in wanted:
        iterator.epoch = epoch
        iterator._cur_epoch_itr = None
        found.append(rows(iterator.next_epoch_itr(shuffle=False)))
    return found


def test_monolingual_text_and_either_side_of_parallel_data(
    mono: Path, toy_data: Path, toy_text: Path
) -> None:
    words = (toy_text / "train.words").read_text().splitlines()
    assert text_of(loaded(mono, "train")) == words
    assert text_of(loaded(mono, "train", "-s", "words")) == words
    assert text_of(loaded(toy_data, "train", "-s", "digits", "-t", "words")) == words
    digits = (toy_text / "valid.digits").read_text().splitlines()
    assert text_of(loaded(toy_data, "valid")) == digits
    one = task(toy_data)
    assert one.source_dictionary is one.target_dictionary


def test_flags_set_the_noise(mono: Path) -> None:
    dataset = loaded(mono, "train", "--noise", "direct:keep=0.5:mask=0.2", "--seed", "9")
    mask = dataset.tgt_dict.index("<mask>")
    batch = dataset.collater([dataset[number] for number in range(2000)])
    source, total = batch["net_input"]["src_tokens"], batch["ntokens"] - 2000
    masked = int((source == mask).sum())
    assert abs(masked - 0.2 * total) < 4 * (0.2 * 0.8 * total) ** 0.5
    # removed: masked and deleted words, except in lines of one word
    assert 0.3 < int(batch["changed"].sum()) / total < 0.36
    assert batch["changed"].shape == batch["target"].shape
    assert not batch["changed"][batch["target"].le(EOS)].any()
    special = {0, 1, 3, *range(len(dataset.tgt_dict), 99)}
    assert not special & set(source.flatten().tolist()) - {1}


def test_noise_depends_on_seed_and_epoch(mono: Path) -> None:
    plain = epochs(task(mono, "--seed", "5"), "train", 1, 2, 1)
    assert plain[0] == plain[2]
    assert plain[0] != plain[1]
    assert epochs(task(mono, "--seed", "6"), "train", 1) != plain[:1]


def test_validation_noise_does_not_change(mono: Path) -> None:
    found = epochs(task(mono), "valid", 1, 2, 7)
    assert found[0] == found[1] == found[2]
    assert any(changed for _, _, changed in found[0])


def test_noise_does_not_depend_on_the_number_of_workers(mono: Path) -> None:
    alone, shared = (
        epochs(task(mono), "train", 1, 2, 3, num_workers=workers) for workers in (0, 2)
    )
    assert alone == shared
    assert alone[0] != alone[1]


@pytest.mark.slow
def test_processes_divide_the_batches(mono: Path) -> None:
    (whole,) = epochs(task(mono), "train", 2)
    parts = [
        row
        for shard in (0, 1)
        for row in epochs(task(mono), "train", 2, num_shards=2, shard_id=shard)[0]
    ]
    assert {(n, *source) for n, source, _ in parts} == {(n, *source) for n, source, _ in whole}


REPLACING = ("--noise", "negatives:delete=0:replace=1:distance=0")
"""Noise that replaces every word."""


def write_split(folder: Path, name: str, lines: list[list[int]]) -> None:
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{folder / name}.bin", dtype=np.uint16)
    for line in lines:
        builder.add_item(torch.tensor([*line, EOS]))
    builder.finalize(f"{folder / name}.idx")


def corpus(folder: Path, **splits: list[list[int]]) -> Path:
    """Return a binarized corpus of ids 4 to 9."""
    folder.mkdir()
    (folder / "dict.en.txt").write_text("".join(f"w{i} 1\n" for i in range(6)))
    for split, lines in splits.items():
        write_split(folder, f"{split}.en-None.en", lines)
    return folder


def test_numbered_splits_are_concatenated(tmp_path: Path) -> None:
    data = corpus(tmp_path / "bin", train=[[4, 4]], train1=[[5], [6]], valid=[[7]])
    assert text_of(loaded(data, "train")) == ["w0 w0", "w1", "w2"]
    assert text_of(loaded(data, "train", "--upsample-primary", "2")) == ["w0 w0"] * 2 + ["w1", "w2"]


def test_shards_alternate_and_all_insert_words_by_their_counts_in_the_dictionary(
    tmp_path: Path,
) -> None:
    first = corpus(tmp_path / "first", train=[[4], [4]], valid=[[7]])
    second = corpus(tmp_path / "second", train=[[5], [6]])
    both = f"{first}:{second}"
    assert text_of(loaded(both, "train", epoch=1)) == ["w0", "w0"]
    assert text_of(loaded(both, "train", epoch=2)) == ["w1", "w2"]
    assert text_of(loaded(both, "valid", epoch=2)) == ["w3"]
    (first / "dict.en.txt").write_text("w0 9\n" + "".join(f"w{i} 0\n" for i in range(1, 6)))
    dataset = loaded(both, "train", *REPLACING, epoch=2)
    batch = dataset.collater([dataset[0], dataset[1]])
    assert batch["net_input"]["src_tokens"].tolist() == [[4, EOS], [4, EOS]]


def test_words_beyond_the_vocabulary_are_not_inserted(tmp_path: Path) -> None:
    """The model has a vocabulary of 7 of 10 symbols. Of these, 4 is the most frequent one."""
    data = corpus(tmp_path / "bin", train=[[4, 5, 6, 7, 8, 9] * 4] * 100)
    counts = (6, 3, 1, 80, 5, 5)
    lines = [f"w{i} {count}\n" for i, count in enumerate(counts)]
    (data / "dict.en.txt").write_text("".join(lines))
    model = ("--arch", "pointer_transformer_tiny", "--copy-vocabulary", "7")
    cfg = parsed(data, "--task", "denoising_pretraining", *model, *REPLACING)
    one = tasks.setup_task(cfg.task)
    one.build_model(cfg.model)
    (found,) = epochs(one, "train", 1)
    drawn = np.bincount([i for _, source, _ in found for i in source if i != EOS], minlength=10)
    assert drawn[7:].sum() == 0
    assert drawn[4:7] / drawn.sum() == pytest.approx([0.6, 0.3, 0.1], abs=0.04)


def test_missing_mask_token_is_rejected_with_a_fix(tmp_path: Path) -> None:
    data = corpus(tmp_path / "bin", train=[[4, 5, 6, 7, 8, 9]] * 20)
    with pytest.raises(ConfigurationError, match="masks words with <mask>") as error:
        task(data, "--noise", "direct")
    command = f"echo '<mask> 1' >> {data}/dict.en.txt"
    assert command in str(error.value)
    task(data, "--noise", "direct:mask=0")
    with (data / "dict.en.txt").open("a") as dictionary:
        dictionary.write("<mask> 1\n")
    dataset = loaded(data, "train", "--noise", "direct:mask=1:keep=0")
    ids = dataset.collater([dataset[0]])["net_input"]["src_tokens"].flatten().tolist()
    assert set(ids) == {10, EOS}


def test_noised_sources_are_truncated_to_the_model_maximum(tmp_path: Path) -> None:
    data = corpus(tmp_path / "bin", train=[[4, 5, 6, 7, 8, 9]] * 200)
    inserting = ("--noise", "direct:keep=0:mask=0")
    free, cut = (
        [len(source) for _, source, _ in epochs(task(data, *inserting, *limit), "train", 1)[0]]
        for limit in ((), ("--max-source-positions", "8"))
    )
    assert max(free) > 8
    assert [min(length, 8) for length in free] == cut


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (("--noise", WITHIN_WORDS[0]), WITHIN_WORDS[0]),
        (("--noise", "direct:kep=0.1"), "'kep'"),
        (("--noise", "direct:keep=2"), "keep is 2"),
        (("--noise-subwords", "sentencepiece"), "▁"),
        (("--num-batch-buckets", "3"), "--num-batch-buckets"),
        (("-s", "letters"), "words-None"),
    ],
)
def test_invalid_options_are_rejected(mono: Path, flags: tuple[str, ...], culprit: str) -> None:
    with pytest.raises(FairseqSslError, match=culprit):
        task(mono, *flags).load_dataset("valid")


@pytest.mark.parametrize(
    ("folders", "flags", "language"),
    [
        (["words-None"], (), "words"),
        (["words-None", "digits-None"], ("-s", "digits"), "digits"),
        (["words-None", "digits-None"], ("-t", "digits"), "digits"),
        (["digits-words"], (), "words"),
        (["digits-words"], ("-s", "words"), "digits"),
    ],
)
def test_language_of_the_text(
    tmp_path: Path, folders: list[str], flags: tuple[str, ...], language: str
) -> None:
    for pair in folders:
        for side in {*pair.split("-")} - {"None"}:
            (tmp_path / f"train.{pair}.{side}.idx").touch()
            (tmp_path / f"dict.{side}.txt").write_text(f"{side} 1\n")
    assert task(tmp_path, *flags).target_dictionary.symbols[-1] == language


def test_texts_of_several_languages_need_a_choice(tmp_path: Path) -> None:
    for side in ("words", "digits"):
        (tmp_path / f"train.{side}-None.{side}.idx").touch()
    with pytest.raises(ConfigurationError, match="digits-None, words-None"):
        task(tmp_path)


def test_missing_and_foreign_data_is_rejected(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigurationError, match=str(folder)):
            task(folder)
    data = corpus(tmp_path / "bin", test=[[4]], train1=[[4, 11]])
    assert text_of(loaded(data, "test"))
    with (data / "dict.en.txt").open("a") as dictionary:
        dictionary.write("a@@ 1\n")
    with pytest.raises(ConfigurationError, match="Dataset not found: train"):
        loaded(data, "test", "--noise-subwords", "subword-nmt")
    for name in ("bin", "idx"):
        (data / f"train1.en-None.en.{name}").rename(data / f"train.en-None.en.{name}")
    with pytest.raises(DataError, match="contains the id 11"):
        loaded(data, "train")
