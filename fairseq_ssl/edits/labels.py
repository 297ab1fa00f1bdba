"""Edit labels, their transforms of suffix and case, and their names (PIE, equation 1)."""

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
"""Symbol of the empty suffix in suffix files."""
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

The words are from the authors' code. For example, "an" is not "a" with the suffix "n".
"""

SuffixPair = tuple[str, str, list[str]]


def english_suffixes() -> list[SuffixPair]:
    """Return the suffix pairs of PIE, table 10."""
    return _parse_suffix_pairs(ENGLISH.splitlines(), "table 10")


def read_suffixes(path: Path) -> list[SuffixPair]:
    """Read suffix pairs from a file.

    Each line has two suffixes, and optional words that keep the first suffix.
    """
    pairs = _parse_suffix_pairs(read_lines(path), str(path))
    if not pairs:
        raise DataError(f"{path} has no suffixes. Expected lines such as: - s")
    return pairs


def _parse_suffix_pairs(lines: Iterable[str], name: str) -> list[SuffixPair]:
    pairs: dict[frozenset[str], SuffixPair] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        left, right = ("" if word == NO_SUFFIX else word for word in [*words, "", ""][:2])
        if len(words) < 2 or left == right:
            raise DataError(
                f"{name}:{number} is {line!r}. Expected two suffixes such as 'e ing', with "
                f"{NO_SUFFIX} for an empty suffix, and optional words that keep the first suffix."
            )
        wrong = [word for word in words[2:] if not word.endswith(left)]
        if wrong:
            raise DataError(
                f"{name}:{number}: {wrong[0]!r} does not end in {left!r}. Expected words with the "
                "first suffix."
            )
        if frozenset((left, right)) in pairs:
            raise DataError(
                f"{name}:{number}: {line!r} is listed twice. A pair applies in both directions, so "
                "list it once."
            )
        pairs[frozenset((left, right))] = (left, right, words[2:])
    return list(pairs.values())


CASES = {
    "lower": str.lower,
    "capital": lambda word: word[:1].upper() + word[1:],
    "upper": str.upper,
}
"""Functions that change the case of a word, in order of preference."""
MAX_WORDS = 200_000
"""Max number of words in the cache of `Transforms`."""


@dataclass(frozen=True)
class SuffixTransform:
    """Transform that replaces the suffix `off` by `on`. One of them can be empty."""

    off: str
    on: str

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if the word has no stem before the suffix `off`."""
        stem = word.removesuffix(self.off)
        if not stem or len(stem) + len(self.off) != len(word):
            return None
        return stem + self.on

    @property
    def inverse(self) -> SuffixTransform:
        """Transform in the opposite direction."""
        return SuffixTransform(self.on, self.off)


@dataclass(frozen=True)
class CaseTransform:
    """Transform that changes the case of a word. `case` is one of `CASES`."""

    case: str

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if the word already has this case."""
        changed = CASES[self.case](word)
        return None if changed == word else changed


Transform: TypeAlias = SuffixTransform | CaseTransform


@dataclass(frozen=True)
class Transforms:
    """The transforms of an edit dictionary.

    If several transforms change a word in the same way, the first one is used.
    """

    table: tuple[Transform, ...] = ()
    spared: tuple[frozenset[str], ...] = ()
    """For each transform, words that it must not change."""
    _known: dict[str, tuple[int, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str, Iterable[str]]], cases: bool) -> Transforms:
        """Create two transforms per suffix pair, one for each direction, and the case transforms.

        Args:
            pairs: two suffixes, and words that the first transform does not change; the second
                transform does not change the words that these would have become
            cases: add the transforms of `CASES`
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
        """Return the index of the first transform that changes `word` to `other`, or None."""
        fitting = [number for number in self._cases if self.table[number](word) == other]
        if word[:1] == other[:1]:
            fitting += self._suffixes_between(word, other)
        if not fitting:
            return None
        return min((number for number in fitting if word not in self.spared[number]), default=None)

    def possible(self, word: str) -> tuple[int, ...]:
        """Return the indices of the transforms that can change a word."""
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
        """Indices of the transforms by the suffix that they remove."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for (off, _), numbers in self._by_change.items():
            found[off] += numbers
        return dict(found)

    @cached_property
    def _max_suffix(self) -> int:
        return max(map(len, self._by_suffix), default=0)

    def _suffixes_between(self, word: str, other: str) -> Iterator[int]:
        """Yield the indices of the transforms that change `word` to `other`, for all stems."""
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
"""Tokens of a q-gram."""


@dataclass(frozen=True)
class Label:
    """An edit label: keep, delete, append, replace or transform a token."""

    kept: bool
    """True if the token is kept, before `gram`."""
    gram: Gram = ()
    """Tokens to append to the token, or to replace the token with."""
    transform: Transform | None = None

    def __str__(self) -> str:
        """Return the name for `parse_label`, which has no spaces."""
        if isinstance(self.transform, SuffixTransform):
            return f"SUFFIX_{_suffixes(self.transform)}"
        if isinstance(self.transform, CaseTransform):
            return f"CASE_{self.transform.case}"
        if self.gram:
            return f"{'APPEND' if self.kept else 'REPLACE'}_{gram_name(self.gram)}"
        return "KEEP" if self.kept else "DELETE"

    @property
    def kind(self) -> str:
        """One of keep, delete, append, replace, suffix and case."""
        return str(self).partition("_")[0].lower()

    def edited(self, token: str) -> Sequence[str]:
        """Return the tokens that the label changes `token` to.

        Raise DataError if a transform cannot change the token.
        """
        if self.transform is not None:
            changed = self.transform(token)
            if changed is None:
                raise DataError(f"The label {self} cannot change the token {token!r}.")
            return (changed,)
        return (token, *self.gram) if self.kept else self.gram


KEEP = Label(True)
DELETE = Label(False)


def gram_name(gram: Gram) -> str:
    """Join the tokens of a q-gram with underscores. Percent-encode %, _ and whitespace."""
    return "_".join(_escaped(token, r"[%_\s]") for token in gram)


def parse_gram(name: str) -> Gram:
    """Split the result of `gram_name` into tokens. Raise DataError if the name is invalid."""
    gram = tuple(map(_plain, name.split("_")))
    if not all(gram) or gram_name(gram) != name:
        raise DataError(
            f"{name!r} is not a q-gram. Expected tokens joined with _ such as of_the, with % "
            "written as %25."
        )
    return gram


def parse_label(name: str) -> Label:
    """Return the label with a name. Raise DataError if the name is invalid.

    KEEP and DELETE are always the same objects.
    """
    if name in _PLAIN:
        return _PLAIN[name]
    kind, _, argument = name.partition("_")
    if not argument or kind not in _PARSED:
        known = [*_PLAIN, *(f"{kind}_" for kind in _PARSED)]
        raise DataError(
            f"{name!r} is not a label. Expected {', '.join(known[:-1])} or {known[-1]}, for "
            f"example APPEND_of_the.{nearest(kind, [*_PLAIN, *_PARSED])}"
        )
    return _PARSED[kind](argument)


def _parse_suffixes(name: str) -> Label:
    found = re.fullmatch(r"(?:-([^-+]+))?(?:\+([^-+]+))?", name)
    transform = SuffixTransform(*(_plain(part or "") for part in found.groups())) if found else None
    if transform is None or transform.off == transform.on or _suffixes(transform) != name:
        raise DataError(
            f"{name!r} is not a suffix transform. Expected for example +s, -s or -e+ing."
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
    """Percent-encode the characters that match `signs`."""
    return re.sub(signs, lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), text)


def _plain(text: str) -> str:
    """Undo `_escaped`. Return an empty string for invalid escapes."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return ""
