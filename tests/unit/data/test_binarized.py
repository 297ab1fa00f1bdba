"""Binarized folders: read, written with the same ids and types, and refused when damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.binarized import BinarizedFolder, IdSeparator
from fairseq_ssl.errors import DataError, FairseqSslError, UsageError

EOS = 2
Spoil = Callable[[Path], object]
SENTENCES = ([[4, 5], [], [6]], [[7], [4, 4, 4], []])


def write_ids(path: Path, sentences: Sequence[Sequence[int]], dtype: Any = np.uint16) -> None:
    """Write ``path.bin`` and ``path.idx`` with fairseq's own builder."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{path}.bin", dtype=dtype)
    for ids in sentences:
        builder.add_item(torch.tensor(ids, dtype=torch.int64))
    builder.finalize(f"{path}.idx")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus of three pairs in two splits; its dictionaries end with padding words."""
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


def ids(path: Path) -> list[list[int]]:
    """Return the sentences in a file as fairseq itself reads them."""
    dataset = indexed_dataset.make_dataset(str(path), "mmap")
    return [dataset[i].tolist() for i in range(len(dataset))]


def test_sentences_come_without_their_end(folder: Path) -> None:
    corpus = BinarizedFolder(folder)
    assert corpus.languages == ("en", "de")
    assert [split.name for split in corpus.splits] == ["train", "test"]
    pairs = list(corpus.splits[0].pairs())
    assert [source.tolist() for source, _ in pairs] == SENTENCES[0]
    assert [target.tolist() for _, target in pairs] == SENTENCES[1]
    assert [corpus.length(target) for _, target in pairs] == [1, 3, 0]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # from fairseq
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_what_is_written_unchanged_is_the_same_to_the_byte(
    dtype: Any, folder: Path, tmp_path: Path
) -> None:
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
def test_an_added_separator_leaves_all_ids_as_they_are(
    ending: str, folder: Path, tmp_path: Path
) -> None:
    for path in folder.glob("dict.*.txt"):
        path.write_text(path.read_text().rstrip("\n") + ending)
    corpus = BinarizedFolder(folder)
    assert [separator.id for separator in corpus.separators("<sep>")] == [12, 12]
    told = corpus.write_dictionaries(tmp_path, "<sep>")
    assert told == [f"dict.{x}.txt: '<sep>' added as id 12" for x in ("en", "de")]
    before, after = (Dictionary.load(str(x / "dict.en.txt")) for x in (folder, tmp_path))
    assert after.symbols == [*before.symbols, "<sep>"]
    assert before.symbols[10] == "madeupword0000"
    assert after.index("<sep>") == 12


def test_only_the_dictionary_without_the_separator_gets_it(folder: Path, tmp_path: Path) -> None:
    corpus = BinarizedFolder(folder)
    assert [separator.id for separator in corpus.separators("en2")] == [6, 12]
    assert corpus.write_dictionaries(tmp_path, "en2") == ["dict.de.txt: 'en2' added as id 12"]
    same = (folder / "dict.en.txt").read_bytes()
    assert (tmp_path / "dict.en.txt").read_bytes() == same


def test_dictionaries_that_are_the_same_stay_so(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "dict.en.txt", folder / "dict.de.txt")
    BinarizedFolder(folder).write_dictionaries(tmp_path, "<sep>")
    english, german = (tmp_path / f"dict.{x}.txt" for x in ("en", "de"))
    assert english.read_bytes() == german.read_bytes()
    assert english.read_bytes() != (folder / "dict.en.txt").read_bytes()


sentence = st.lists(st.integers(min_value=0, max_value=9).filter(lambda id_: id_ != 4))


@given(st.lists(sentence, min_size=1))
def test_split_undoes_join(sentences: list[list[int]]) -> None:
    separator = IdSeparator("<sep>", 4)
    joined = separator.join([np.array(ids, dtype=np.int64) for ids in sentences])
    assert joined.tolist().count(4) == len(sentences) - 1
    assert [ids.tolist() for ids in separator.split(joined)] == sentences


def test_language_names_with_hyphens(folder: Path) -> None:
    for path in folder.glob("*.de.*"):
        path.rename(folder / path.name.replace("de", "zh-CN"))
    for path in folder.glob("*en-de*"):
        path.rename(folder / path.name.replace("en-de", "en-zh-CN"))
    assert BinarizedFolder(folder).languages == ("en", "zh-CN")


def cut(name: str, size: int) -> Spoil:
    """Return what cuts this many bytes off a file."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-size])


def drop(name: str) -> Spoil:
    """Return what deletes a file."""
    return lambda folder: (folder / name).unlink()


def fill(name: str, *sentences: Sequence[int]) -> Spoil:
    """Return what puts other sentences into a file."""
    return lambda folder: write_ids(folder / name, sentences)


def say(name: str, content: str) -> Spoil:
    """Return what puts other text into a file."""
    return lambda folder: (folder / name).write_text(content)


def overflow(name: str) -> Spoil:
    """Return what makes an index count more sentences than there can be."""
    magic = b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + b"\x04"
    return lambda folder: (folder / name).write_bytes(magic + b"\xff" * 16)


FAULTS: list[tuple[Spoil, str]] = [
    (cut("train.en-de.en.bin", 2), r"train.en-de.en.idx is damaged or does not match its .bin"),
    (cut("train.en-de.en.idx", 30), r"train.en-de.en.idx is damaged"),
    (cut("train.en-de.en.idx", 50), r"train.en-de.en.idx is damaged"),
    (overflow("train.en-de.en.idx"), r"train.en-de.en.idx is damaged"),
    (say("train.en-de.en.idx", "HUFFIDX\0\0 and more"), r"not an index of fairseq's type mmap"),
    (say("train.en-de.en.idx", ""), r"not an index of fairseq's type mmap"),
    (fill("train.en-de.en"), r"train.en-de.en.bin is empty"),
    (fill("train.en-de.en", [5, 2], [5], [2]), r"train.en-de.en.bin:2 does not end with the end"),
    (fill("train.en-de.en", [2], [2], []), r"train.en-de.en.bin:3 does not end with the end"),
    (fill("train.en-de.de", [5, 2]), r"en.bin has 3 sentences but \S+/train.en-de.de.bin has 1\."),
    (drop("test.en-de.de.bin"), r"test.en-de.de.bin is missing. Expected .bin and .idx of both"),
    (drop("test.en-de.en.idx"), r"test.en-de.en.idx is missing"),
    (drop("dict.de.txt"), r"dict.de.txt is missing"),
    (say("dict.de.txt", "a 1\na 2\n"), r"dict.de.txt is not a fairseq dictionary: Duplicate"),
    (say("dict.de.txt", "word\n"), r"dict.de.txt is not a fairseq dictionary: Incorrect"),
]


def read_all(folder: Path) -> None:
    """Read every sentence there is."""
    for split in BinarizedFolder(folder).splits:
        list(split.pairs())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # fairseq's __del__
@pytest.mark.parametrize(("spoil", "message"), FAULTS)
def test_damage_is_named(spoil: Spoil, message: str, folder: Path) -> None:
    spoil(folder)
    with pytest.raises(DataError, match=message):
        read_all(folder)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ((), UsageError, "holds en-de, en-fr: say which with -s and -t"),
        (("de", "fr"), UsageError, "no pair of de and fr, only en-de, en-fr"),
        (("en", "fr"), DataError, "dict.fr.txt is missing"),
    ],
)
def test_a_pair_that_can_not_be_told_is_asked_for(
    asked: tuple[str, ...], error: type[FairseqSslError], message: str, folder: Path
) -> None:
    for language in ("en", "fr"):
        write_ids(folder / f"train.en-fr.{language}", [[5, 2]])
    with pytest.raises(error, match=message):
        BinarizedFolder(folder, *asked)


def test_the_direction_asked_for_is_preferred(folder: Path) -> None:
    assert BinarizedFolder(folder, "de", "en").languages == ("en", "de")
    for language in ("en", "de"):
        write_ids(folder / f"train.de-en.{language}", [[5, 2]])
    assert BinarizedFolder(folder, "de", "en").languages == ("de", "en")
    assert BinarizedFolder(folder, "en", "de").languages == ("en", "de")


def test_a_folder_of_other_data_is_refused(folder: Path) -> None:
    for path in folder.glob("t*.en-de.*"):
        path.rename(folder / path.name.replace("en-de.", ""))
    with pytest.raises(DataError, match="has no parallel splits"):
        BinarizedFolder(folder)
