"""What the tools ask of a folder with a parallel corpus, be it text or binarised.

A sentence is a line of text or an array of ids: `S` stands for either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fairseq_ssl.errors import DataError, UsageError

S = TypeVar("S")
Pair = tuple[S, S]

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
    def pairs(self) -> Iterator[Pair[S]]:
        """Read the pairs one by one."""

    @abstractmethod
    def write(self, pairs: Iterable[Pair[S]], folder: Path) -> int:
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

    def __iter__(self) -> Iterator[Pair[S]]:
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
