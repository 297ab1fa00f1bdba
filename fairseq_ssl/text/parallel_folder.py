"""A folder with a parallel corpus: tokenized text, read split by split."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Generic, TypeVar, cast

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import read_parallel, write_parallel

Sentence = TypeVar("Sentence")


def interleave(items: Sequence[Sentence], between: Sentence) -> list[Sentence]:
    """Return the items with `between` after each but the last."""
    woven = [between] * (2 * len(items) - 1)
    woven[::2] = items
    return woven


def first_to_end(items: Sequence[Sentence]) -> list[Sentence]:
    """Return X_2, ..., X_n, X_1."""
    return [*items[1:], *items[:1]]


def join_sentences(sentences: Iterable[str], separator: str) -> str:
    """Join sentences into one line with the separator as a token of its own between them.

    Whitespace around a sentence is dropped, a carriage return at its end among it. An empty
    sentence leaves two separators side by side.
    """
    stripped = [sentence.strip() for sentence in sentences]
    return " ".join(filter(None, interleave(stripped, separator)))


def split_sentences(text: str, separator: str) -> list[str]:
    """Undo `join_sentences`: one sentence more than there are separators."""
    if separator not in text:
        return [text.strip()]
    token = rf"(?<!\S){re.escape(separator)}(?!\S)"
    return [sentence.strip() for sentence in re.split(token, text)]


S = TypeVar("S")
SentencePair = tuple[S, S]

SUBSETS = ("train", "valid", "test")
"""What the name of a split begins with."""


@dataclass(frozen=True)
class Separator(ABC, Generic[S]):
    """A token between the sentences of a group, as one side of a corpus writes it."""

    token: str

    @abstractmethod
    def join(self, sentences: Sequence[S]) -> S:
        """Put the token between the sentences."""

    @abstractmethod
    def split(self, group: S) -> list[S]:
        """Return the sentences around the token: one more than the group has of it."""


Separators = tuple[Separator[S], Separator[S]]
"""Those of the two sides."""


@dataclass(frozen=True)
class Split(ABC, Generic[S]):
    """One split of a parallel corpus: ``train``, ``valid``, ``test1`` and the like."""

    name: str
    paths: tuple[Path, Path]

    @abstractmethod
    def pairs(self) -> Iterator[SentencePair[S]]:
        """Read the pairs one by one."""

    @abstractmethod
    def write(self, pairs: Iterable[SentencePair[S]], folder: Path) -> int:
        """Write pairs in this split's form, under its names; returns their number."""


class ParallelFolder(ABC, Generic[S]):
    """The splits of one language pair in a folder, and how they write what they hold."""

    form: str
    languages: tuple[str, str]
    splits: Sequence[Split[S]]

    @abstractmethod
    def length(self, sentence: S) -> int:
        """Return the number of tokens."""

    @abstractmethod
    def separators(self, token: str) -> Separators[S]:
        """Return what joins and splits the sentences of each side."""

    def write_dictionaries(self, folder: Path, separator: str | None) -> list[str]:
        """Write the dictionaries, if there are any, and the separator in each.

        Returns what is to be told of it.
        """
        return []


class PairReader(Generic[S]):
    """The pairs of a split, once through, and the place of the last one in its files."""

    def __init__(self, split: Split[S]) -> None:
        self.split = split
        self.count = 0

    def __iter__(self) -> Iterator[SentencePair[S]]:
        for pair in self.split.pairs():
            self.count += 1
            yield pair
        if not self.count:
            raise DataError(f"{self.split.paths[0]} is empty. Expected a sentence or more.")

    def place(self, side: int) -> str:
        """Return file and line of the pair read last, on side 0 or 1."""
        return f"{self.split.paths[side]}:{self.count}"


def files_of(folder: Path) -> list[Path]:
    """Return the files of splits in a folder, those of train first, then valid, then test."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Expected one with a parallel corpus.")
    found = (path for subset in SUBSETS for path in sorted(folder.glob(f"{subset}*")))
    return [path for path in found if path.is_file()]


def choose_languages(
    folder: Path, pairs: Collection[tuple[str, str]], source: str | None, target: str | None
) -> tuple[str, str]:
    """Return the one language pair of a folder, or the one that holds the languages asked for."""
    if source is not None and source == target:
        raise UsageError(f"-s and -t are both {source}; expected two languages.")
    wanted = {language for language in (source, target) if language is not None}
    found = [pair for pair in sorted(pairs) if wanted <= set(pair)]
    found = [pair for pair in found if pair == (source, target)] or found
    if len(found) == 1:
        return found[0]
    names = ", ".join("-".join(pair) for pair in found or sorted(pairs))
    if found:
        raise UsageError(f"{folder} holds {names}: say which with -s and -t.")
    raise UsageError(f"{folder} holds no pair of {' and '.join(sorted(wanted))}, only {names}.")


NAME = re.compile(r"(?P<split>.+?)\.(?P<language>[^.]+)(\.gz)?")


class TextSeparator(Separator[str]):
    """A word between the sentences of a line."""

    def join(self, sentences: Sequence[str]) -> str:
        """Join them into a line."""
        return join_sentences(sentences, self.token)

    def split(self, group: str) -> list[str]:
        """Split a line."""
        return split_sentences(group, self.token)


class TextSplit(Split[str]):
    """Two files whose lines belong together."""

    def pairs(self) -> Iterator[SentencePair[str]]:
        """Read the lines side by side."""
        return cast(Iterator[SentencePair[str]], read_parallel(self.paths))

    def write(self, pairs: Iterable[SentencePair[str]], folder: Path) -> int:
        """Write two files, compressed as these are."""
        return write_parallel([folder / path.name for path in self.paths], pairs)


class TextFolder(ParallelFolder[str]):
    """All splits of one language pair, each file plain or ``.gz``."""

    form = "text"

    def __init__(self, folder: Path, source: str | None = None, target: str | None = None) -> None:
        found = _files(folder)
        pairs = {pair for files in found.values() for pair in combinations(sorted(files), 2)}
        if not pairs:
            raise _nothing_parallel(folder, found)
        self.languages = choose_languages(folder, pairs, source, target)
        self.splits = [
            TextSplit(name, self._both_files(name, files))
            for name, files in found.items()
            if not files.keys().isdisjoint(self.languages)
        ]

    def length(self, sentence: str) -> int:
        """Return the number of words between whitespace."""
        return len(sentence.split())

    def separators(self, token: str) -> tuple[TextSeparator, TextSeparator]:
        """Return the same separator for both sides."""
        return TextSeparator(token), TextSeparator(token)

    def _both_files(self, split: str, files: dict[str, Path]) -> tuple[Path, Path]:
        for language, other in (self.languages, self.languages[::-1]):
            if language not in files:
                raise DataError(
                    f"{files[other].with_name(f'{split}.{language}')} is missing: "
                    f"{files[other].name} has no partner."
                )
        source, target = self.languages
        return files[source], files[target]


def _files(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the files that may be text, by split and language."""
    found: dict[str, dict[str, Path]] = defaultdict(dict)
    for path in files_of(folder):
        named = NAME.fullmatch(path.name)
        if named is None:
            continue
        same = found[named["split"]].setdefault(named["language"], path)
        if same != path:
            raise DataError(f"{same} and {path} are both there. Keep one of them.")
    return found


def _nothing_parallel(folder: Path, found: dict[str, dict[str, Path]]) -> DataError:
    for files in found.values():
        for path in files.values():
            return DataError(f"{path} has no partner: no file of this split in another language.")
    return DataError(
        f"{folder} holds no parallel corpus. Expected text, as train.en and train.de, or what "
        "fairseq-preprocess writes, as train.en-de.en.idx."
    )
