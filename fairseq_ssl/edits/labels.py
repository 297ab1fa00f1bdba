"""Labels of source tokens: suffix and case transforms, their names in files (PIE, equation 1)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from fairseq_ssl.errors import DataError, nearest
from fairseq_ssl.io.text_files import read_lines

NO_SUFFIX = "-"
"""The empty suffix."""
ENGLISH = """
- s      a A i I
- d
- es
- ing
- ed
- ly
- er
- al
- n      a A i I
- y      m
- ation
e ing
d t
d s
s ing
n ing
nce t
s ed
ing ed
ing ion
ing ation
t ce
y ic
t s
e al
y ily
y ied
y ical
y ies
"""
"""Suffix pairs of PIE, table 10, for both directions, and words that keep the first suffix.

The words are those of the authors' code: "a" and "an" are not two forms of one word.
"""

SuffixPair = tuple[str, str, list[str]]


def english_suffixes() -> list[SuffixPair]:
    """Return the suffix pairs of PIE, table 10."""
    return _parsed(ENGLISH.splitlines(), "table 10")


def read_suffixes(path: Path) -> list[SuffixPair]:
    """Read lines of two suffixes, and optional words that keep the first suffix."""
    pairs = _parsed(read_lines(path), str(path))
    if not pairs:
        raise DataError(f"{path} has no suffixes. Expected lines such as: - s")
    return pairs


def _parsed(lines: Iterable[str], name: str) -> list[SuffixPair]:
    pairs: dict[frozenset[str], SuffixPair] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        left, right = ("" if word == NO_SUFFIX else word for word in [*words, "", ""][:2])
        if len(words) < 2 or left == right:
            raise DataError(
                f"{name}:{number} is {line!r}. Expected two suffixes, {NO_SUFFIX} for none, and "
                "words that keep the first suffix, for example: e ing"
            )
        wrong = [word for word in words[2:] if not word.endswith(left)]
        if wrong:
            raise DataError(f"{name}:{number}: {wrong[0]!r} does not end in {left!r}.")
        if frozenset((left, right)) in pairs:
            raise DataError(
                f"{name}:{number}: {line!r} is listed twice. Every pair applies in both directions."
            )
        pairs[frozenset((left, right))] = (left, right, words[2:])
    return list(pairs.values())


CASES = {
    "lower": str.lower,
    "capital": lambda word: word[:1].upper() + word[1:],
    "upper": str.upper,
}
"""Functions that change the case of a word, in the order of preference."""
MAX_WORDS = 200_000
"""Size of the cache of words."""


@dataclass(frozen=True)
class SuffixTransform:
    """Replaces one suffix by another. Either may be empty."""

    off: str
    on: str

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if it does not have the suffix after a stem."""
        stem = word.removesuffix(self.off)
        if not stem or len(stem) + len(self.off) != len(word):
            return None
        return stem + self.on

    @property
    def inverse(self) -> SuffixTransform:
        """The transform in the other direction."""
        return SuffixTransform(self.on, self.off)


@dataclass(frozen=True)
class CaseTransform:
    """Changes a word to one of `CASES`."""

    case: str

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if it does not change."""
        changed = CASES[self.case](word)
        return None if changed == word else changed


Transform: TypeAlias = SuffixTransform | CaseTransform


@dataclass(frozen=True)
class Transforms:
    """The transforms of an edit dictionary. Of several that fit a change, the first is used."""

    table: tuple[Transform, ...] = ()
    spared: tuple[frozenset[str], ...] = ()
    """For each transform, the words that it is not used on."""
    _known: dict[str, tuple[int, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str, Iterable[str]]], cases: bool) -> Transforms:
        """Create transforms from pairs of suffixes with spared words, and optionally of case.

        A pair gives two transforms, one for each direction. The first does not change the spared
        words, and the second does not change what they would become.
        """
        table: list[Transform] = []
        spared = []
        for off, on, words in pairs:
            there = SuffixTransform(off, on)
            table += [there, there.inverse]
            spared += [frozenset(words), frozenset(filter(None, map(there, words)))]
        if cases:
            table += map(CaseTransform, CASES)
        spared += [frozenset()] * (len(table) - len(spared))
        return cls(tuple(table), tuple(spared))

    def match(self, word: str, other: str) -> int | None:
        """Return the index of the first transform that changes `word` to `other`."""
        fitting = [number for number in self._cases if self.table[number](word) == other]
        if word[:1] == other[:1]:
            fitting += self._suffixes_between(word, other)
        if not fitting:
            return None
        return min((number for number in fitting if word not in self.spared[number]), default=None)

    def possible(self, word: str) -> tuple[int, ...]:
        """Return the indices of the transforms that fit a word."""
        known = self._known.get(word)
        if known is None:
            if len(self._known) >= MAX_WORDS:
                self._known.clear()
            known = self._known[word] = tuple(sorted(self._possible(word)))
        return known

    @cached_property
    def _cases(self) -> list[int]:
        return [n for n, one in enumerate(self.table) if isinstance(one, CaseTransform)]

    @cached_property
    def _by_change(self) -> dict[tuple[str, str], list[int]]:
        found = defaultdict(list)
        for number, transform in enumerate(self.table):
            if isinstance(transform, SuffixTransform):
                found[transform.off, transform.on].append(number)
        return dict(found)

    @cached_property
    def _by_suffix(self) -> dict[str, list[int]]:
        """The indices of the transforms by the suffix that they remove."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for (off, _), numbers in self._by_change.items():
            found[off] += numbers
        return dict(found)

    @cached_property
    def _max_suffix(self) -> int:
        return max(map(len, self._by_suffix), default=0)

    def _suffixes_between(self, word: str, other: str) -> Iterator[int]:
        """Yield the indices of the transforms that replace what follows a common stem."""
        stem = max(1, len(word) - self._max_suffix)
        if word[:stem] != other[:stem]:
            return
        while stem <= len(word):
            yield from self._by_change.get((word[stem:], other[stem:]), ())
            if word[stem : stem + 1] != other[stem : stem + 1]:
                return
            stem += 1

    def _possible(self, word: str) -> Iterator[int]:
        numbers = self._cases.copy()
        for stem in range(max(1, len(word) - self._max_suffix), len(word) + 1):
            numbers += self._by_suffix.get(word[stem:], ())
        for number in numbers:
            if word not in self.spared[number] and self.table[number](word) is not None:
                yield number


Gram = tuple[str, ...]
"""Tokens inserted together."""


@dataclass(frozen=True)
class Label:
    """An edit of a token: keep, delete or transform it, and insert a q-gram."""

    kept: bool
    gram: Gram = ()
    transform: Transform | None = None

    def __str__(self) -> str:
        """Return the name, which has no space and can be parsed."""
        if isinstance(self.transform, SuffixTransform):
            return f"SUFFIX_{_suffixes(self.transform)}"
        if isinstance(self.transform, CaseTransform):
            return f"CASE_{self.transform.case}"
        if self.gram:
            return f"{'APPEND' if self.kept else 'REPLACE'}_{gram_name(self.gram)}"
        return "KEEP" if self.kept else "DELETE"

    @property
    def kind(self) -> str:
        """Return keep, delete, append, replace, suffix or case."""
        return str(self).partition("_")[0].lower()

    def edited(self, token: str) -> Sequence[str]:
        """Return the tokens instead of the token. Raise DataError if the label does not fit it."""
        if self.transform is not None:
            changed = self.transform(token)
            if changed is None:
                raise DataError(f"{self} does not fit the token {token!r}.")
            return (changed,)
        return (token, *self.gram) if self.kept else self.gram


KEEP = Label(True)
DELETE = Label(False)


def gram_name(gram: Gram) -> str:
    """Join tokens to one word, with escapes."""
    return "_".join(_escaped(token, r"[%_\s]") for token in gram)


def parse_gram(name: str) -> Gram:
    """Split the word of `gram_name` into tokens."""
    gram = tuple(map(_plain, name.split("_")))
    if not all(gram) or gram_name(gram) != name:
        raise DataError(
            f"{name!r} is not tokens joined with _. Expected for example of_the, with % as %25."
        )
    return gram


def parse_label(name: str) -> Label:
    """Return the label of a name. KEEP and DELETE are always the same objects."""
    if name in _PLAIN:
        return _PLAIN[name]
    kind, _, argument = name.partition("_")
    if not argument or kind not in _PARSED:
        known = [*_PLAIN, *(f"{kind}_" for kind in _PARSED)]
        raise DataError(
            f"{name!r} is not a label. Expected {', '.join(known[:-1])} or {known[-1]}, "
            f"such as APPEND_of_the.{nearest(kind, [*_PLAIN, *_PARSED])}"
        )
    return _PARSED[kind](argument)


def _parse_suffixes(name: str) -> Label:
    found = re.fullmatch(r"(?:-([^-+]+))?(?:\+([^-+]+))?", name)
    transform = SuffixTransform(*(_plain(part or "") for part in found.groups())) if found else None
    if transform is None or transform.off == transform.on or _suffixes(transform) != name:
        raise DataError(
            f"{name!r} is not a change of suffix. Expected for example +s, -s or -e+ing."
        )
    return Label(False, transform=transform)


def _parse_case(name: str) -> Label:
    if name not in CASES:
        raise DataError(
            f"{name!r} is not a case. Expected one of {', '.join(CASES)}.{nearest(name, CASES)}"
        )
    return Label(False, transform=CaseTransform(name))


_PLAIN = {str(label): label for label in (KEEP, DELETE)}
_PARSED: dict[str, Callable[[str], Label]] = {
    "APPEND": lambda name: Label(True, parse_gram(name)),
    "REPLACE": lambda name: Label(False, parse_gram(name)),
    "SUFFIX": _parse_suffixes,
    "CASE": _parse_case,
}


def _suffixes(transform: SuffixTransform) -> str:
    parts = (("-", transform.off), ("+", transform.on))
    return "".join(sign + _escaped(suffix, r"[-+%\s]") for sign, suffix in parts if suffix)


def _escaped(text: str, signs: str) -> str:
    """Percent-encode these characters only."""
    return re.sub(signs, lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), text)


def _plain(text: str) -> str:
    """Undo `_escaped`. Return an empty string for invalid escapes."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return ""
