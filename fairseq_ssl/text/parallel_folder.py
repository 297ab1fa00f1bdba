"""Folders with the splits of a parallel corpus: interface, and implementation for text files."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Generic, TypeVar, cast

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import read_parallel
from fairseq_ssl.io.text_files import COMPRESSIONS, write_parallel

Sentence = TypeVar("Sentence")


def interleave(items: Sequence[Sentence], between: Sentence) -> list[Sentence]:
    """Return the items with `between` inserted between neighbors."""
    result = [between] * (2 * len(items) - 1)
    result[::2] = items
    return result


def first_to_end(items: Sequence[Sentence]) -> list[Sentence]:
    """Return the items with the first one moved to the end: X_2, ..., X_n, X_1."""
    return [*items[1:], *items[:1]]


def join_sentences(sentences: Iterable[str], separator: str) -> str:
    """Join sentences into one line, with the separator as a token between them.

    Whitespace around sentences, including carriage returns, is removed. An empty sentence between
    two others produces two adjacent separators.
    """
    stripped = [sentence.strip() for sentence in sentences]
    return " ".join(filter(None, interleave(stripped, separator)))


def split_sentences(text: str, separator: str) -> list[str]:
    """Split a line at the separators. This is the inverse of `join_sentences`."""
    if separator not in text:
        return [text.strip()]
    token = rf"(?<!\S){re.escape(separator)}(?!\S)"
    return [sentence.strip() for sentence in re.split(token, text)]


S = TypeVar("S")
SentencePair = tuple[S, S]

SUBSETS = ("train", "valid", "test")
"""Prefixes of split names."""


@dataclass(frozen=True)
class Separator(Generic[S]):
    """Separator token between joined sentences on one side of a corpus."""

    token: str
    join: Callable[[Sequence[S]], S]
    """Function that joins sentences with the separator between them."""
    split: Callable[[S], list[S]]
    """Function that splits joined sentences at the separators."""


Separators = tuple[Separator[S], Separator[S]]
"""Separators for the source and target sides."""


@dataclass(frozen=True)
class Split(ABC, Generic[S]):
    """A split of a parallel corpus, such as ``train``, ``valid`` or ``test1``."""

    name: str
    paths: tuple[Path, Path]

    @abstractmethod
    def pairs(self) -> Iterator[SentencePair[S]]:
        """Yield the sentence pairs."""

    @abstractmethod
    def write(self, pairs: Iterable[SentencePair[S]], folder: Path) -> int:
        """Write pairs to `folder` in the format of this split and with its file names.

        Return the number of pairs.
        """


class ParallelFolder(ABC, Generic[S]):
    """Interface of folders that contain the splits of a parallel corpus for one language pair."""

    form: str
    """Name of the format, text or binarized."""
    languages: tuple[str, str]
    """Source and target language."""
    splits: Sequence[Split[S]]

    @abstractmethod
    def length(self, sentence: S) -> int:
        """Return the number of tokens in a sentence."""

    @abstractmethod
    def separators(self, token: str) -> Separators[S]:
        """Return the separators of the source and target sides for the token `token`."""

    def write_dictionaries(self, folder: Path, separator: str | None) -> list[str]:
        """Write the dictionaries to `folder`. Append `separator`, if set, where it is missing.

        Return a notice for each extended dictionary. The text format has no dictionaries.
        """
        return []


class PairReader(Generic[S]):
    """Iterable over the pairs of a split. It counts them and raises DataError if there are none."""

    def __init__(self, split: Split[S]) -> None:
        self.split = split
        self.count = 0

    def __iter__(self) -> Iterator[SentencePair[S]]:
        for pair in self.split.pairs():
            self.count += 1
            yield pair
        if not self.count:
            raise DataError(f"{self.split.paths[0]} is empty. Expected at least one sentence.")

    def place(self, side: int) -> str:
        """Return the location ``FILE:LINE`` of the current pair on side 0 (source) or side 1."""
        return f"{self.split.paths[side]}:{self.count}"


def files_of(folder: Path) -> list[Path]:
    """Return the files whose names begin with train, valid or test, in this order."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Expected a folder with a parallel corpus.")
    paths = (path for subset in SUBSETS for path in sorted(folder.glob(f"{subset}*")))
    return [path for path in paths if path.is_file()]


def choose_languages(
    folder: Path, pairs: Collection[tuple[str, str]], source: str | None, target: str | None
) -> tuple[str, str]:
    """Return the language pair that contains the requested languages.

    If the folder does not contain the requested direction, the opposite direction also matches.
    Raise UsageError if no pair matches or if several pairs match.

    Args:
        folder: path to name in error messages.
        pairs: language pairs that exist in the folder.
        source: requested source language, or None for any language.
        target: requested target language, or None for any language.
    """
    if source is not None and source == target:
        raise UsageError(
            f"`source_lang` and `target_lang` are both {source}. Expected two different languages."
        )
    requested = {language for language in (source, target) if language is not None}
    matching = [pair for pair in sorted(pairs) if requested <= set(pair)]
    matching = [pair for pair in matching if pair == (source, target)] or matching
    if len(matching) == 1:
        return matching[0]
    names = ", ".join("-".join(pair) for pair in matching or sorted(pairs))
    if matching:
        raise UsageError(
            f"{folder} contains several language pairs: {names}. Set `source_lang` and "
            "`target_lang` to one of them."
        )
    languages = " and ".join(sorted(requested))
    raise UsageError(
        f"{folder} contains no language pair with {languages}. Set `source_lang` and `target_lang` "
        f"to one of its pairs: {names}."
    )


SUFFIXES = "|".join(map(re.escape, COMPRESSIONS))
NAME = re.compile(rf"(?P<split>.+?)\.(?P<language>[^.]+)({SUFFIXES})?")


class TextSplit(Split[str]):
    """A split stored as two parallel text files."""

    def pairs(self) -> Iterator[SentencePair[str]]:
        """Yield the pairs of lines."""
        return cast(Iterator[SentencePair[str]], read_parallel(self.paths))

    def write(self, pairs: Iterable[SentencePair[str]], folder: Path) -> int:
        """Write two files with the original file names. Return the number of pairs.

        A file whose name ends with the suffix of a compression format is compressed.
        """
        return write_parallel([folder / path.name for path in self.paths], pairs)


class TextFolder(ParallelFolder[str]):
    """Folder with the splits of one language pair as text files, which can be compressed."""

    form = "text"

    def __init__(self, folder: Path, source: str | None = None, target: str | None = None) -> None:
        splits = _find_files(folder)
        pairs = {pair for files in splits.values() for pair in combinations(sorted(files), 2)}
        if not pairs:
            raise _no_corpus_error(folder, splits)
        self.languages = choose_languages(folder, pairs, source, target)
        self.splits = [
            TextSplit(name, self._both_files(name, files))
            for name, files in splits.items()
            if not files.keys().isdisjoint(self.languages)
        ]

    def length(self, sentence: str) -> int:
        """Return the number of whitespace-separated tokens."""
        return len(sentence.split())

    def separators(self, token: str) -> Separators[str]:
        """Return the same separator for both sides."""
        join = partial(join_sentences, separator=token)
        separator = Separator(token, join, partial(split_sentences, separator=token))
        return separator, separator

    def _both_files(self, split: str, files: dict[str, Path]) -> tuple[Path, Path]:
        for language, other in (self.languages, self.languages[::-1]):
            if language not in files:
                raise DataError(
                    f"{files[other].with_name(f'{split}.{language}')} does not exist. Add it "
                    f"as the other side of {files[other].name}, or remove {files[other].name}."
                )
        source, target = self.languages
        return files[source], files[target]


def _find_files(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the text files in a folder, such as train.en, by split and language."""
    splits: dict[str, dict[str, Path]] = defaultdict(dict)
    for path in files_of(folder):
        match = NAME.fullmatch(path.name)
        if match is None:
            continue
        same = splits[match["split"]].setdefault(match["language"], path)
        if same != path:
            raise DataError(f"Both {same} and {path} exist. Keep only one of them.")
    return splits


def _no_corpus_error(folder: Path, splits: dict[str, dict[str, Path]]) -> DataError:
    for files in splits.values():
        for path in files.values():
            return DataError(
                f"{path} is the only file of its split. Expected files in two languages, such as "
                "train.en and train.de."
            )
    return DataError(
        f"{folder} contains no parallel corpus. Expected text files, such as train.en and "
        "train.de, or the output of fairseq-preprocess, such as train.en-de.en.idx."
    )
