"""Confusion sets: for each word of a vocabulary what it may be mistaken for (thesis, 4.3.2).

They are kept in a file of lines ``word<TAB>other other other``, sorted by the words; the others
are those a spell checker suggests, the likeliest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.noise.spell_checkers import SpellChecker

SLICE = 500
"""Words that are looked up at a time."""


@dataclass(frozen=True)
class Confuser:
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


def slices(words: Mapping[str, int]) -> list[list[str]]:
    """Cut those that can have a confusion set, with two letters or more, into pieces of work."""
    long = [word for word in words if _letters(word) > 1]
    return [long[at : at + SLICE] for at in range(0, len(long), SLICE)]


def _letters(word: str) -> int:
    return sum(map(str.isalpha, word))


def lines_of(sets: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
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
