"""Training and segmentation with subword-nmt."""

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
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.subwords import VOCABULARY_SUFFIX, TrainedSubwords, replace_model
from fairseq_ssl.text.vocabulary import count_lines, read_counts

SUFFIX = ".codes"
LAST, SEPARATOR = "</w>", "@@"
"""Suffix of word-final symbols in a merge file, and suffix of non-final subwords in text."""
VERSIONS = ((0, 1), (0, 2))
"""Versions of merge files that subword-nmt can apply."""
CACHE_SIZE = 1_000_000
"""Number of cached words above which the cache is cleared. subword-nmt itself has no limit."""


class SubwordNmtModel:
    """Subword model that applies BPE merges with subword-nmt."""

    def __init__(self, path: Path, tags: Sequence[str] = ()) -> None:
        self.path = path
        codes = list(read_lines(path))
        self._plain = _load_bpe(codes, str(path), ())
        self._tags, self._tagged = tags, _load_bpe(codes, str(path), tags) if tags else self._plain

    def cut(self, text: str) -> list[str]:
        """Segment a text into subwords. Words end at spaces or carriage returns, as in training."""
        # The search for tags in each word takes four times as long, so only lines with tags use it.
        bpe = self._tagged if any(tag in text for tag in self._tags) else self._plain
        if len(bpe.cache) > CACHE_SIZE:
            bpe.cache.clear()
        return list(bpe.segment_tokens(text.replace("\r", " ").split(" ")))

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Yield the subwords and counts in PREFIX.vocab. Raise DataError if the file is missing."""
        vocabulary = Path(f"{str(self.path).removesuffix(SUFFIX)}{VOCABULARY_SUFFIX}")
        if not vocabulary.is_file():
            raise DataError(
                f"{vocabulary} does not exist, and {self.path} contains no list of subwords. "
                "Encode the text, and count its subwords with fairseq-preprocess."
            )
        yield from read_counts(vocabulary).items()


def train(
    lines: Iterable[str], prefix: Path, size: int, tags: Sequence[str] = ()
) -> TrainedSubwords:
    """Learn up to `size` merges. Write PREFIX.codes, and PREFIX.vocab with subword counts.

    Args:
        lines: tokenized training text.
        prefix: prefix of the outputs.
        size: maximum number of merges.
        tags: words that are ignored during training.
    """
    words: Counter[str] = Counter()
    line_count = 0
    for line in lines:
        words.update(re.split(r"[ \r]+", line))
        line_count += 1
    for word in ("", *tags):
        del words[word]
    if not any(len(word) > 1 for word in words):
        raise DataError(
            "The text contains no words of two or more characters. Expected at least one such word."
        )
    codes = _learn_merges(words, size)
    merges = len(codes) - 1
    if not merges:
        raise DataError(
            "There is too little text to train on: no pair of characters is repeated. Provide more "
            "text."
        )
    path = Path(f"{prefix}{SUFFIX}")
    subwords = _count_subwords(words, codes, str(path))
    with replace_model(prefix, SUFFIX) as (temporary, vocabulary):
        vocabulary.write_text("".join(count_lines(subwords)), "utf-8")
        temporary.write_text("".join(f"{line}\n" for line in codes), "utf-8")
    notes: tuple[str, ...] = ()
    if merges < size:
        notes = (f"{merges} merges instead of {size}, since no other pair is repeated",)
    return TrainedSubwords(path, line_count, len(subwords), notes)


def _learn_merges(words: Counter[str], size: int) -> list[str]:
    """Learn up to `size` merges. Return the lines of a merge file, the version first."""
    learn = import_optional("subword_nmt.learn_bpe", "A subword-nmt model", "wmt").learn_bpe
    codes = io.StringIO()
    counts = (f"{word} {count}" for word, count in words.items())
    # Hide the progress bar if stderr is not a terminal.
    with redirect_stderr(sys.stderr if sys.stderr.isatty() else io.StringIO()):
        learn(counts, codes, min(size, sys.maxsize), is_dict=True)
    return codes.getvalue().removesuffix("\n").split("\n")


def _count_subwords(words: Counter[str], codes: list[str], name: str) -> Counter[str]:
    """Count the subwords in all words.

    Subwords that do not occur in the text, but could occur in other words, get a count of 0.
    """
    bpe = _load_bpe(codes, name, ())
    subwords: Counter[str] = Counter()
    for word, count in words.items():
        for subword in bpe.segment_tokens([word]):
            subwords[subword] += count
    symbols = {end for letter in set().union(*words) for end in (letter, f"{letter}{LAST}")}
    symbols.update(line.replace(" ", "") for line in codes[1:])
    for symbol in symbols:
        is_last = symbol.endswith(LAST)
        subwords.setdefault(symbol.removesuffix(LAST) if is_last else f"{symbol}{SEPARATOR}", 0)
    return subwords


def _load_bpe(codes: list[str], name: str, tags: Sequence[str]) -> Any:
    """Return subword-nmt's BPE object for the lines of a merge file.

    Raise DataError if a line is malformed or if the version is not in `VERSIONS`.
    """
    package = import_optional("subword_nmt.apply_bpe", "A subword-nmt model", "wmt")
    has_version = bool(codes) and re.fullmatch(r"#version: \d+(\.\d+)*", codes[0]) is not None
    merges = codes[has_version:] or [""]
    for number, line in enumerate(merges, 1 + has_version):
        if len(line.split(" ")) != 2 or line.startswith("#version:"):
            raise DataError(
                f"{name}:{number} is {line[:80]!r}. Expected two symbols separated by a space. Is "
                "this a subword-nmt merge file?"
            )
    # subword-nmt reads glossaries as regular expressions.
    glossaries = [re.escape(tag) for tag in tags]
    bpe = package.BPE(io.StringIO("\n".join(codes)), glossaries=glossaries)
    if bpe.version not in VERSIONS:
        raise DataError(f"{name}:1 is {codes[0][:80]!r}. Expected version 0.1 or 0.2.")
    return bpe
