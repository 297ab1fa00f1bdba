"""Check, read and write folders in fairseq-preprocess's binarized format."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset
from numpy.typing import NDArray

from fairseq_ssl.data.id_batches import token_ids
from fairseq_ssl.errors import DataError
from fairseq_ssl.text.parallel_folder import (
    ParallelFolder,
    SentencePair,
    Separator,
    Separators,
    Split,
    choose_languages,
    files_of,
    interleave,
)

CHECK_CHUNK = 1 << 22
"""Number of index entries to check at a time."""


def check_datasets() -> None:
    """Patch fairseq to reject damaged ``.idx`` files and to read cached data in any order.

    The destructors of fairseq's classes fail after an index is rejected, so they are also patched.
    """
    from fairseq.data.indexed_dataset import IndexedCachedDataset, MMapIndexedDataset

    index = MMapIndexedDataset.Index
    if not getattr(index, "is_checked", False):
        index.__init__ = _check_after_init(index.__init__)
        for patched in (index, MMapIndexedDataset):
            patched.__del__ = _ignore_missing_attributes(patched.__del__)
        IndexedCachedDataset.__getitem__ = _prefetch_if_missing(IndexedCachedDataset.__getitem__)
        index.is_checked = True


def _check_after_init(stock: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stock)
    def init(self: Any, path: str) -> None:
        try:
            stock(self, path)
            is_valid = _is_valid(self, Path(path).with_suffix(".bin").stat().st_size)
        except OSError:
            raise
        except Exception:  # raised by struct, by numpy or by an assert in fairseq
            is_valid = False
        if not is_valid:
            raise DataError(
                f"{path} is damaged or does not match its .bin file. Binarize the data again."
            )

    return init


def _is_valid(index: Any, size: int) -> bool:
    """Return True if the sentences are contiguous and fill a file of `size` bytes."""
    sizes, starts, width = index._sizes, index._pointers, np.dtype(index._dtype).itemsize
    end = 0
    for first in range(0, len(sizes), CHECK_CHUNK):
        lengths = sizes[first : first + CHECK_CHUNK].astype(np.int64) * width
        ends = end + np.cumsum(lengths)
        if (lengths < 0).any() or (starts[first : first + CHECK_CHUNK] != ends - lengths).any():
            return False
        end = int(ends[-1])
    return end == size


def _ignore_missing_attributes(stock: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stock)
    def close(self: Any) -> None:
        with contextlib.suppress(AttributeError):  # the file was never opened
            stock(self)

    return close


def _prefetch_if_missing(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return `stock`, extended to prefetch all sentences if a sentence is not in the cache."""

    @functools.wraps(stock)
    def getitem(self: Any, index: int) -> Any:
        if index not in self.cache_index:
            self.prefetch(range(len(self)))
        return stock(self, index)

    return getitem


IdArray = NDArray[np.int64]
"""Token ids of a sentence."""

NAME = re.compile(
    r"(?P<split>.+?)\.(?P<source>[^.]+)-(?P<target>[^.]+)\.((?P=source)|(?P=target))\.(bin|idx)"
)


def join_ids(sentences: Sequence[IdArray], separator: int) -> IdArray:
    """Join sentences with a separator id between them."""
    return np.concatenate(interleave(sentences, np.array([separator])))


def split_ids(group: IdArray, separator: int) -> list[IdArray]:
    """Split joined sentences at the separator id. The results are views of `group`."""
    separators = np.flatnonzero(group == separator).tolist()
    starts, ends = [0, *(index + 1 for index in separators)], [*separators, len(group)]
    return [group[start:end] for start, end in zip(starts, ends, strict=True)]


class IdFile:
    """One side of a split: ids in ``.bin``, sentence offsets in ``.idx``.

    Sentences are yielded without their end-of-sentence id.
    """

    def __init__(self, path: Path, eos: int) -> None:
        self.path = path
        self._eos = eos
        prefix = str(path.with_suffix(""))
        self._dtype = _read_dtype(path, prefix)
        self._dataset = indexed_dataset.make_dataset(prefix, "mmap")

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[IdArray]:
        for index in range(len(self)):
            ids: IdArray = self._dataset[index].numpy()
            if not len(ids) or ids[-1] != self._eos:
                raise DataError(
                    f"Sentence {index + 1} in {self.path} does not end with the end-of-sentence id "
                    f"{self._eos}. Binarize the data again with fairseq-preprocess."
                )
            yield ids[:-1]

    def writer(self, folder: Path) -> IdWriter:
        """Return a writer for a file of the same name and dtype in `folder`."""
        return IdWriter(folder / self.path.name, self._dtype, self._eos)


class IdWriter:
    """Writer for one side of a split. `write` appends to ``.bin``, and `finish` writes ``.idx``."""

    def __init__(self, path: Path, dtype: type[np.integer[Any]], eos: int) -> None:
        self._builder = indexed_dataset.MMapIndexedDatasetBuilder(str(path), dtype=dtype)
        self._index = str(path.with_suffix(".idx"))
        self._eos = np.array([eos])

    def write(self, sentence: IdArray) -> None:
        """Append a sentence, followed by the end-of-sentence id."""
        self._builder.add_item(torch.from_numpy(np.concatenate([sentence, self._eos])))

    def finish(self) -> None:
        """Write the ``.idx`` file."""
        self._builder.finalize(self._index)


def write_ids(path: Path, lines: Iterable[str], dictionary: Any) -> int:
    """Write lines to a binarized file. Return the number of out-of-vocabulary tokens."""
    dtype = indexed_dataset.best_fitting_int_dtype(len(dictionary))
    writer = IdWriter(path, dtype, dictionary.eos())
    unknown, count = 0, 0
    for line in lines:
        ids = np.array(token_ids(dictionary, line.split()), np.int64)
        unknown += int(np.count_nonzero(ids == dictionary.unk()))
        writer.write(ids)
        count += 1
    if not count:
        raise DataError(f"The text for {path.name} contains no lines. Expected at least one line.")
    writer.finish()
    return unknown


@dataclass(frozen=True)
class BinarizedSplit(Split[IdArray]):
    """A split that consists of two parallel files of ids."""

    files: tuple[IdFile, IdFile]

    def pairs(self) -> Iterator[SentencePair[IdArray]]:
        """Yield the sentence pairs. Raise DataError if the sides differ in sentence count."""
        source, target = self.files
        if len(source) != len(target):
            raise DataError(
                f"{source.path} has {len(source)} sentences, but {target.path} has {len(target)}. "
                "Both sides must have the same number of sentences. Binarize them again."
            )
        return zip(source, target, strict=True)

    def write(self, pairs: Iterable[SentencePair[IdArray]], folder: Path) -> int:
        """Write the ``.bin`` and ``.idx`` files of both sides. Return the number of pairs."""
        writers = [file.writer(folder) for file in self.files]
        count = 0
        for pair in pairs:
            for writer, sentence in zip(writers, pair, strict=True):
                writer.write(sentence)
            count += 1
        for writer in writers:
            writer.finish()
        return count


class BinarizedFolder(ParallelFolder[IdArray]):
    """All splits of one language pair, with their dictionaries."""

    form = "binarized"

    def __init__(self, folder: Path, source: str | None = None, target: str | None = None) -> None:
        splits = _find_splits(folder)
        if not splits:
            raise DataError(
                f"{folder} contains no parallel splits. Expected files from fairseq-preprocess, "
                "such as train.en-de.en.idx."
            )
        self.languages = choose_languages(folder, splits, source, target)
        self._paths = [folder / f"dict.{language}.txt" for language in self.languages]
        self._dictionaries = [_load_dictionary(path) for path in self._paths]
        self.splits = [self._open_split(folder, name) for name in splits[self.languages]]

    def length(self, sentence: IdArray) -> int:
        """Return the number of ids in a sentence."""
        return len(sentence)

    def separators(self, token: str) -> Separators[IdArray]:
        """Return the separator of joined sentences for each side.

        If a dictionary lacks `token`, the separator's id is the dictionary size.
        """
        ids = (w.index(token) if token in w else len(w) for w in self._dictionaries)
        source, target = (
            Separator(token, partial(join_ids, separator=id), partial(split_ids, separator=id))
            for id in ids
        )
        return source, target

    def write_dictionaries(self, folder: Path, separator: str | None) -> list[str]:
        """Copy both dictionaries, and append the separator if it is missing.

        All lines, including padding words (madeupword0000), are copied unchanged, so that ids stay
        the same. Return a notice for each dictionary that was extended.
        """
        notices = []
        for path, words in zip(self._paths, self._dictionaries, strict=True):
            content = path.read_bytes()
            if separator is not None and separator not in words:
                content = content.removesuffix(b"\n") + f"\n{separator} 1\n".encode()
                notices.append(f"{path.name}: {separator!r} added as id {len(words)}")
            (folder / path.name).write_bytes(content)
        return notices

    def _open_split(self, folder: Path, name: str) -> BinarizedSplit:
        stem = f"{name}.{'-'.join(self.languages)}"
        source, target = (folder / f"{stem}.{language}.bin" for language in self.languages)
        for path in (source, target):
            for required in (path, path.with_suffix(".idx")):
                if not required.is_file():
                    raise DataError(
                        f"{required} is missing. Expected a .bin file and an .idx file for both "
                        f"languages of {stem}."
                    )
        eos = [words.eos() for words in self._dictionaries]
        files = (IdFile(source, eos[0]), IdFile(target, eos[1]))
        return BinarizedSplit(name, (source, target), files)


def _find_splits(folder: Path) -> dict[tuple[str, str], list[str]]:
    """Return the split names for each language pair."""
    splits: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files_of(folder):
        match = NAME.fullmatch(path.name)
        if match is None:
            continue
        names = splits[match["source"], match["target"]]
        if match["split"] not in names:
            names.append(match["split"])
    return splits


def _load_dictionary(path: Path) -> Any:
    if not path.is_file():
        raise DataError(f"{path} is missing. Expected a dictionary for each language.")
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq also raises plain Exception
        raise DataError(
            f"{path} cannot be loaded ({error}). Expected a dictionary from fairseq-preprocess."
        ) from None


def _read_dtype(path: Path, prefix: str) -> type[np.integer[Any]]:
    """Return the dtype of the ids. Raise DataError for a damaged, empty or non-mmap index."""
    index = indexed_dataset.index_file_path(prefix)
    check_datasets()
    if indexed_dataset.infer_dataset_impl(prefix) != "mmap":
        raise DataError(
            f"{index} is not an index in fairseq's mmap format. Binarize the data again with "
            "fairseq-preprocess and its default --dataset-impl."
        )
    try:
        sentences = indexed_dataset.MMapIndexedDataset.Index(index)
    except OSError as error:
        raise DataError(f"{index} cannot be read: {error.strerror}.") from None
    if not len(sentences):
        raise DataError(f"{path} is empty. Expected at least one sentence.")
    dtype: type[np.integer[Any]] = sentences.dtype
    return dtype
