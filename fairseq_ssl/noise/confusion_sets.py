"""Confusion sets: for each word of a vocabulary the words that a spell checker offers instead."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from fairseq_ssl.errors import DataError, MissingPackageError, import_optional
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.casing import match_case

DISTANCE = 2
"""Edits that SymSpell looks for: a letter put in, left out, replaced, or swapped with the next."""


class SpellChecker(Protocol):
    """Knows what is near a word."""

    def version(self) -> str:
        """Return the checker's name and version; says how to install what is missing."""

    def suggestions(self, words: Sequence[str]) -> Iterator[list[str]]:
        """Yield for each word those near it, the nearest first."""


@dataclass(frozen=True)
class SymSpell:
    """symspellpy, whose dictionary is the vocabulary itself.

    Suggestions are at most two edits away: the nearest first, then the most frequent, then by
    the alphabet.
    """

    counts: Mapping[str, int]

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process without the index, which is sooner built there."""
        return SymSpell, (self.counts,)

    def version(self) -> str:
        """Return the version of symspellpy."""
        _import_symspell()
        return f"symspellpy {importlib.metadata.version('symspellpy')}"

    def suggestions(self, words: Sequence[str]) -> Iterator[list[str]]:
        """Look each word up in the index, which is built when it is first needed."""
        for word in words:
            found = self._index.lookup(word, self._all, DISTANCE)
            nearest = sorted((item.distance, -item.count, item.term) for item in found)
            yield list(dict.fromkeys(term for *_, term in nearest if term != word))

    @cached_property
    def _index(self) -> Any:
        symspellpy, comparer = _import_symspell()
        index = symspellpy.SymSpell(DISTANCE, distance_comparer=comparer)
        for word, count in self.counts.items():
            index.create_dictionary_entry(word, max(1, count))
        return index

    @cached_property
    def _all(self) -> Any:
        return _import_symspell()[0].Verbosity.ALL


def _import_symspell() -> tuple[Any, Any]:
    """Return symspellpy, and what compares words for it: its own way is half as fast."""
    for package in ("symspellpy", "rapidfuzz"):
        import_optional(package, "The spell checker symspell", "noise")
    import symspellpy
    from rapidfuzz.distance import OSA
    from symspellpy.abstract_distance_comparer import AbstractDistanceComparer
    from symspellpy.editdistance import DistanceAlgorithm, EditDistance

    class Comparer(AbstractDistanceComparer):
        def distance(self, string_1: str, string_2: str, max_distance: int) -> int:
            found = OSA.distance(string_1, string_2, score_cutoff=max_distance)
            return found if found <= max_distance else -1

    return symspellpy, EditDistance(DistanceAlgorithm.USER_PROVIDED, Comparer())


@dataclass(frozen=True)
class Aspell:
    """The program GNU Aspell, which brings a dictionary of its own for a language.

    A program that checks spelling has nothing to suggest for a word that is right. So each
    word is written in a mix of small and capital letters that is never right ("tHEIR"), for
    which Aspell suggests what it does for the word, and the suggestions get the word's case.
    Words of a script without capitals have suggestions only where Aspell does not know them.
    """

    language: str = "en"

    def version(self) -> str:
        """Return the version of aspell; the program and the language must be there."""
        if shutil.which("aspell") is None:
            raise MissingPackageError(
                "aspell",
                "The spell checker aspell",
                f"apt install aspell aspell-{self.language} (or what your system calls them); or "
                "use --checker symspell",
            )
        first = self._ask("").partition("\n")[0]
        return f"aspell {first.partition('Aspell ')[2].rstrip(')')} {self.language}"

    def suggestions(self, words: Sequence[str]) -> Iterator[list[str]]:
        """Ask one process about all words at once; it ends each answer with a blank line."""
        asked = [word[:1].lower() + word[1:].upper() for word in words]
        lines = iter(self._ask("".join(f"^{word}\n" for word in asked)).split("\n")[1:])
        for word, form in zip(words, asked, strict=True):
            answers = list(takewhile(bool, lines))
            yield [match_case(word, other) for other in _parse_suggestions(form, answers)]

    def _ask(self, lines: str) -> str:
        options = ("--mode=none", "--encoding=utf-8", f"--lang={self.language}")
        try:
            done = subprocess.run(
                ["aspell", "-a", *options, "--dont-use-other-dicts"],
                input=lines.encode(),
                capture_output=True,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip()
            raise DataError(f"aspell failed: {said or f'exit code {error.returncode}'}") from None
        return done.stdout.decode("utf-8", "replace")


def _parse_suggestions(word: str, answers: Iterable[str]) -> list[str]:
    """Read ``& word count offset: other, other``; an answer about a part of the word is none."""
    for answer in answers:
        head, _, others = answer.partition(": ")
        if head.split()[:2] == ["&", word]:
            return others.split(", ")
    return []


SLICE_WORDS = 500
"""Words that are looked up at a time."""


@dataclass(frozen=True)
class ConfusionFinder:
    """Asks a spell checker for the confusion sets of words; can be sent to other processes."""

    checker: SpellChecker
    most: int = 20
    """Others of a word."""
    among: frozenset[str] | None = None
    """Words that may be others; all may where there is no such set."""

    def __call__(self, words: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Return those of the words that have others, with them."""
        found = zip(words, self.checker.suggestions(words), strict=True)
        sets = ((word, self._kept(word, others)) for word, others in found)
        return [(word, others) for word, others in sets if others]

    def _kept(self, word: str, others: Sequence[str]) -> list[str]:
        kept = (
            other
            for other in dict.fromkeys(others)
            if other != word
            and (other in self.among if self.among is not None else other.split() == [other])
        )
        return [other for other, _ in zip(kept, range(self.most), strict=False)]


def known_words(counts: Mapping[str, int], least: int = 1) -> dict[str, int]:
    """Keep what was seen so often and is a word: it has letters and no digit."""
    return {
        word: count
        for word, count in sorted(counts.items())
        if count >= least and _letters(word) and not any(map(str.isdigit, word))
    }


def word_slices(words: Mapping[str, int]) -> list[list[str]]:
    """Cut those that can have a confusion set, with two letters or more, into pieces of work."""
    long = [word for word in words if _letters(word) > 1]
    return [long[at : at + SLICE_WORDS] for at in range(0, len(long), SLICE_WORDS)]


def _letters(word: str) -> int:
    return sum(map(str.isalpha, word))


def format_confusion_sets(sets: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Write each set as a line of the file."""
    for word, others in sets:
        yield f"{word}\t{' '.join(others)}\n"


def read_confusion_sets(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the file, made by ``fairseq-ssl confusion-sets`` or by hand."""
    sets: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, tab, rest = line.partition("\t")
        others = tuple(rest.split(" "))
        problem = ""
        if not tab or "\t" in rest:
            problem = f"has {line.count(chr(9))} tabs; expected one, after the word"
        elif word.split() != [word]:
            problem = f"begins with {word!r}; expected a word without spaces"
        elif any(other.split() != [other] for other in others):
            problem = "has no words after the tab, or not one space between each two"
        elif word in others:
            problem = f"has {word!r} among its own confusions"
        elif word in sets:
            problem = f"has a second set for {word!r}"
        if problem:
            raise DataError(f"{path}:{number} {problem}.")
        sets[word] = others
    if not sets:
        raise DataError(f"{path} holds no confusion set. Make them: fairseq-ssl confusion-sets")
    return sets
