"""Subwords by subword-nmt."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.outputs import atomic_lines, exclusive
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.subwords import VOCABULARY_SUFFIX, TrainedSubwords, with_suffix
from fairseq_ssl.text.vocabulary import read_counts, write_counts

SUFFIX = ".codes"
LAST, SEPARATOR = "</w>", "@@"
"""What subword-nmt ends the last symbol of a word with, in its merges; and any other piece."""
VERSIONS = ((0, 1), (0, 2))
"""Versions of merges that subword-nmt cuts by."""
CACHE_SIZE = 1_000_000
"""Words whose pieces are kept at hand; subword-nmt itself keeps all it ever saw."""


class SubwordNmtModel:
    """Cuts text with the merges of subword-nmt."""

    def __init__(self, path: Path, tags: Sequence[str] = ()) -> None:
        self.path = path
        codes = list(read_lines(path))
        self._plain = _bpe(codes, str(path), ())
        self._tags, self._tagged = tags, _bpe(codes, str(path), tags) if tags else self._plain

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a text; words are what stands between spaces."""
        # looking for tags in every word takes four times as long
        bpe = self._tagged if any(tag in text for tag in self._tags) else self._plain
        if len(bpe.cache) > CACHE_SIZE:
            bpe.cache.clear()
        return list(bpe.segment_tokens(text.split(" ")))

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Yield all pieces of words in the letters it was trained on, the most frequent first."""
        vocabulary = with_suffix(
            self.path.with_name(self.path.name.removesuffix(SUFFIX)), VOCABULARY_SUFFIX
        )
        if not vocabulary.is_file():
            raise DataError(
                f"{vocabulary} does not exist, and {self.path} alone does not tell which pieces "
                "there are. Encode the text and let fairseq-preprocess count them."
            )
        yield from read_counts(vocabulary).items()


def train(
    lines: Iterable[str], prefix: Path, size: int, tags: Sequence[str] = ()
) -> TrainedSubwords:
    """Write PREFIX.codes, of at most `size` merges, and PREFIX.vocab with the pieces' counts."""
    words: Counter[str] = Counter()
    number = 0
    for line in lines:
        words.update(re.split(r"[ \r]+", line))
        number += 1
    for word in ("", *tags):
        del words[word]
    if not any(len(word) > 1 for word in words):
        raise DataError("There is no text to train on: no word has two letters or more.")
    codes = _learn_merges(words, size)
    merges = len(codes) - 1
    if not merges:
        raise DataError("There is too little text to train on: no pair of letters comes twice.")
    path = with_suffix(prefix, SUFFIX)
    pieces = _count_subwords(words, codes, str(path))
    with exclusive(prefix):
        write_counts(
            pieces, with_suffix(prefix, VOCABULARY_SUFFIX)
        )  # first: who finds the merges finds both
        with atomic_lines(path) as file:
            file.writelines(f"{line}\n" for line in codes)
    notes = (f"{merges} merges, not {size}: no more pair comes twice",) if merges < size else ()
    return TrainedSubwords(path, number, len(pieces), notes)


def _learn_merges(words: Counter[str], size: int) -> list[str]:
    """Return the lines of a file of merges."""
    learn = import_optional("subword_nmt.learn_bpe", "Subwords of this kind", "wmt").learn_bpe
    codes = io.StringIO()
    counts = (f"{word} {count}" for word, count in words.items())
    with redirect_stderr(sys.stderr if sys.stderr.isatty() else io.StringIO()):  # a bar
        learn(counts, codes, min(size, sys.maxsize), is_dict=True)
    return codes.getvalue().removesuffix("\n").split("\n")


def _count_subwords(words: Counter[str], codes: list[str], name: str) -> Counter[str]:
    """Count the pieces of all words; those that only other words of such letters need have 0."""
    bpe = _bpe(codes, name, ())
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        for piece in bpe.segment_tokens([word]):
            pieces[piece] += count
    symbols = {end for letter in set().union(*words) for end in (letter, f"{letter}{LAST}")}
    symbols.update(line.replace(" ", "") for line in codes[1:])
    for symbol in symbols:
        last = symbol.endswith(LAST)
        pieces.setdefault(symbol.removesuffix(LAST) if last else f"{symbol}{SEPARATOR}", 0)
    return pieces


def _bpe(codes: list[str], name: str, tags: Sequence[str]) -> Any:
    """Load merges; subword-nmt takes the tags as regular expressions."""
    package = import_optional("subword_nmt.apply_bpe", "Subwords of this kind", "wmt")
    marked = bool(codes) and re.fullmatch(r"#version: \d+(\.\d+)*", codes[0]) is not None
    merges = codes[marked:] or [""]
    for number, line in enumerate(merges, 1 + marked):
        if len(line.split(" ")) != 2 or line.startswith("#version:"):
            raise DataError(
                f"{name}:{number} is {line[:80]!r}; expected two pieces with a space between. Is "
                "this a file of merges that subword-nmt learnt?"
            )
    found = package.BPE(io.StringIO("\n".join(codes)), glossaries=[re.escape(tag) for tag in tags])
    if found.version not in VERSIONS:
        raise DataError(f"{name}:1 is {codes[0][:80]!r}; expected version 0.1 or 0.2.")
    return found
