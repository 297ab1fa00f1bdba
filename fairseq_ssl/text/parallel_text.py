"""A folder of tokenised parallel text: ``train.en``, ``train.de``, ``valid.en.gz`` and so on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.lines import read_parallel, write_parallel
from fairseq_ssl.text.parallel import (
    Pair,
    ParallelFolder,
    Separator,
    Split,
    choose_languages,
    files_of,
)
from fairseq_ssl.text.sentence_groups import join_sentences, split_sentences

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

    def pairs(self) -> Iterator[Pair[str]]:
        """Read the lines side by side."""
        return cast(Iterator[Pair[str]], read_parallel(self.paths))

    def write(self, pairs: Iterable[Pair[str]], folder: Path) -> int:
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
