"""Reading, writing and validating binarized folders."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.binarized import BinarizedFolder, check_datasets, join_ids, split_ids
from fairseq_ssl.errors import DataError, FairseqSslError

EOS = 2
SENTENCES = ([[4, 5], [], [6]], [[7], [4, 4, 4], []])


def write_ids(path: Path, sentences: Sequence[Sequence[int]], dtype: Any = np.uint16) -> None:
    """Write ``path.bin`` and ``path.idx`` with fairseq's own builder."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{path}.bin", dtype=dtype)
    for ids in sentences:
        builder.add_item(torch.tensor(ids, dtype=torch.int64))
    builder.finalize(f"{path}.idx")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a corpus of two splits with three pairs each. Dictionaries end with padding words."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for language in ("en", "de"):
        words = "".join(f"{language}{i} {9 - i}\n" for i in range(6))
        (folder / f"dict.{language}.txt").write_text(f"{words}madeupword0000 0\nmadeupword0001 0\n")
    for split in ("train", "test"):
        for language, sentences in zip(("en", "de"), SENTENCES, strict=True):
            ended = [[*ids, EOS] for ids in sentences]
            write_ids(folder / f"{split}.en-de.{language}", ended)
    return folder


def test_cached_data_is_read_in_any_order(tmp_path: Path) -> None:
    sentences = [[4, 5, EOS], [6, EOS], [7, 7, 7, EOS]]
    builder = indexed_dataset.IndexedDatasetBuilder(f"{tmp_path}/text.bin")
    for each in sentences:
        builder.add_item(torch.tensor(each))
    builder.finalize(f"{tmp_path}/text.idx")
    check_datasets()
    cached = indexed_dataset.make_dataset(f"{tmp_path}/text", "cached", fix_lua_indexing=True)
    assert cached[1].tolist() == sentences[1]
    assert [each.tolist() for each in cached] == sentences
    cached = indexed_dataset.make_dataset(f"{tmp_path}/text", "cached", fix_lua_indexing=True)
    cached.prefetch([2])
    assert [cached[index].tolist() for index in (2, 0)] == [sentences[2], sentences[0]]


def test_pairs_have_no_end_of_sentence_id(folder: Path) -> None:
    corpus = BinarizedFolder(folder)
    assert corpus.languages == ("en", "de")
    assert [split.name for split in corpus.splits] == ["train", "test"]
    pairs = list(corpus.splits[0].pairs())
    assert [source.tolist() for source, _ in pairs] == SENTENCES[0]
    assert [target.tolist() for _, target in pairs] == SENTENCES[1]
    assert [corpus.length(target) for _, target in pairs] == [1, 3, 0]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # from fairseq
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_round_trip_is_byte_identical(dtype: Any, folder: Path, tmp_path: Path) -> None:
    for language, sentences in zip(("en", "de"), SENTENCES, strict=True):
        write_ids(folder / f"train.en-de.{language}", [[*ids, EOS] for ids in sentences], dtype)
    (tmp_path / "out").mkdir()
    corpus = BinarizedFolder(folder)
    for split in corpus.splits:
        assert split.write(split.pairs(), tmp_path / "out") == 3
    assert corpus.write_dictionaries(tmp_path / "out", None) == []
    names = sorted(path.name for path in folder.iterdir())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("ending", ["\n", ""])
def test_a_separator_is_added_only_where_missing_and_changes_no_other_ids(
    ending: str, folder: Path, tmp_path: Path
) -> None:
    for path in folder.glob("dict.*.txt"):
        path.write_text(path.read_text().rstrip("\n") + ending)
    corpus = BinarizedFolder(folder)
    none = np.array([], np.int64)
    joined = [separator.join([none, none]).tolist() for separator in corpus.separators("en2")]
    assert joined == [[6], [12]]
    assert len(corpus.write_dictionaries(tmp_path, "en2")) == 1
    names = [f"dict.{language}.txt" for language in ("en", "de")]
    assert (tmp_path / names[0]).read_bytes() == (folder / names[0]).read_bytes()
    before, after = (Dictionary.load(str(path / names[1])) for path in (folder, tmp_path))
    assert after.symbols == [*before.symbols, "en2"]
    assert after.symbols[10:] == ["madeupword0000", "madeupword0001", "en2"]


def test_joined_dictionary_stays_joined(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "dict.en.txt", folder / "dict.de.txt")
    BinarizedFolder(folder).write_dictionaries(tmp_path, "<sep>")
    english, german = (tmp_path / f"dict.{x}.txt" for x in ("en", "de"))
    assert english.read_bytes() == german.read_bytes()
    assert english.read_bytes() != (folder / "dict.en.txt").read_bytes()


sentence = st.lists(st.integers(min_value=0, max_value=9).filter(lambda id_: id_ != 4))


@given(st.lists(sentence, min_size=1))
def test_split_inverts_join(sentences: list[list[int]]) -> None:
    joined = join_ids([np.array(ids, dtype=np.int64) for ids in sentences], 4)
    assert joined.tolist().count(4) == len(sentences) - 1
    assert [ids.tolist() for ids in split_ids(joined, 4)] == sentences


def test_language_names_with_hyphens(folder: Path) -> None:
    for path in folder.glob("*.de.*"):
        path.rename(folder / path.name.replace("de", "zh-CN"))
    for path in folder.glob("*en-de*"):
        path.rename(folder / path.name.replace("en-de", "en-zh-CN"))
    assert BinarizedFolder(folder).languages == ("en", "zh-CN")


TRAIN = "train.en-de"
FAULTS: list[tuple[str, bytes | slice | list[list[int]] | None, str]] = [
    (f"{TRAIN}.en.bin", slice(-2), "train.en-de.en.idx"),
    (f"{TRAIN}.en.idx", slice(-30), "train.en-de.en.idx"),
    (f"{TRAIN}.en.idx", b"HUFFIDX\0\0 and more", "train.en-de.en.idx"),
    (f"{TRAIN}.en", [], "train.en-de.en.bin"),
    (f"{TRAIN}.en", [[5, 2], [5], [2]], "Sentence 2 in .*train.en-de.en.bin"),
    (f"{TRAIN}.en", [[2], [2], []], "Sentence 3 in .*train.en-de.en.bin"),
    (f"{TRAIN}.de", [[5, 2]], "train.en-de.de.bin has 1"),
    ("test.en-de.de.bin", None, "test.en-de.de.bin"),
    ("dict.de.txt", None, "dict.de.txt"),
    ("dict.de.txt", b"a 1\na 2\n", "dict.de.txt"),
]
"""A file, its new bytes, the part of it that is kept, its sentences or None, and the culprit."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # fairseq's __del__
@pytest.mark.parametrize(("name", "content", "culprit"), FAULTS)
def test_damage_is_reported(name: str, content: Any, culprit: str, folder: Path) -> None:
    path = folder / name
    if content is None:
        path.unlink()
    elif isinstance(content, list):
        write_ids(path, content)
    else:
        path.write_bytes(path.read_bytes()[content] if isinstance(content, slice) else content)
    with pytest.raises(DataError, match=culprit):
        [list(split.pairs()) for split in BinarizedFolder(folder).splits]


@pytest.mark.parametrize("languages", [(), ("de", "fr"), ("en", "fr")])
def test_ambiguous_or_missing_language_pair_is_rejected(
    languages: tuple[str, ...], folder: Path
) -> None:
    for language in ("en", "fr"):
        write_ids(folder / f"train.en-fr.{language}", [[5, 2]])
    with pytest.raises(FairseqSslError, match="fr"):
        BinarizedFolder(folder, *languages)


def test_requested_direction_is_preferred(folder: Path) -> None:
    assert BinarizedFolder(folder, "de", "en").languages == ("en", "de")
    for language in ("en", "de"):
        write_ids(folder / f"train.de-en.{language}", [[5, 2]])
    assert BinarizedFolder(folder, "de", "en").languages == ("de", "en")
    assert BinarizedFolder(folder, "en", "de").languages == ("en", "de")


def test_folder_without_parallel_splits_is_rejected(folder: Path) -> None:
    for path in folder.glob("t*.en-de.*"):
        path.rename(folder / path.name.replace("en-de.", ""))
    with pytest.raises(DataError, match="contains no parallel splits"):
        BinarizedFolder(folder)
