"""Token transforms: changes of suffix, case, verb form and number, splits and merges.

The suffix transforms are from PIE (table 10). The other groups follow GECToR (Omelianchuk et al.,
2020, section 3).
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.inflection import inflection

NO_SUFFIX = "-"
"""Symbol for an empty suffix in suffix files."""
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
"""Suffix pairs from PIE (table 10), for both directions, and words that keep the first suffix.

The words are from the authors' code. For example, "an" is not "a" with the suffix "n".
"""

SuffixPair = tuple[str, str, list[str]]


def english_suffixes() -> list[SuffixPair]:
    """Return the suffix pairs from PIE (table 10)."""
    return _parse_suffix_pairs(ENGLISH.splitlines(), "table 10")


def read_suffixes(path: Path) -> list[SuffixPair]:
    """Read suffix pairs from a file.

    Each line contains two suffixes, and optional words that keep the first suffix.
    """
    pairs = _parse_suffix_pairs(read_lines(path), str(path))
    if not pairs:
        raise DataError(f"{path} contains no suffixes. Expected two per line, such as 'e ing'.")
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
                f"{name}:{number} is {line!r}. Expected two different suffixes, such as 'e ing' "
                f"({NO_SUFFIX} is an empty suffix), and optional words that keep the first suffix."
            )
        wrong = [word for word in words[2:] if not word.endswith(left)]
        if wrong:
            raise DataError(
                f"{name}:{number}: {wrong[0]!r} does not end with {left!r}. Expected words that "
                "end with the first suffix."
            )
        if frozenset((left, right)) in pairs:
            raise DataError(
                f"{name}:{number}: the suffixes of {line!r} are already listed. A pair applies in "
                "both directions, so list it once."
            )
        pairs[frozenset((left, right))] = (left, right, words[2:])
    return list(pairs.values())


class Transform(Protocol):
    """A change of a token. The name of its label is KIND_argument, such as CASE_lower."""

    @property
    def kind(self) -> str:
        """Group in `GROUPS`, or `suffix` or `unknown` for transforms outside the groups."""

    @property
    def argument(self) -> str:
        """The part of the label name after the kind."""

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if the transform cannot change it."""


@dataclass(frozen=True)
class SuffixTransform:
    """Transform that replaces the suffix `off` with `on`. One of them can be empty."""

    kind = "suffix"
    off: str
    on: str

    @property
    def argument(self) -> str:
        """The two suffixes, such as -e+ing."""
        parts = (("-", self.off), ("+", self.on))
        return "".join(sign + escape(suffix, r"[-+%\s]") for sign, suffix in parts if suffix)

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if the word is not a stem with the suffix `off`."""
        stem = word.removesuffix(self.off)
        if not stem or len(stem) + len(self.off) != len(word):
            return None
        return stem + self.on

    @property
    def inverse(self) -> SuffixTransform:
        """The transform in the opposite direction."""
        return SuffixTransform(self.on, self.off)


WordFunction = Callable[[str], str | None]


@dataclass(frozen=True)
class WordTransform:
    """Transform that applies a function in `WORD_FUNCTIONS` to a token.

    If the result contains spaces, the token is split there.
    """

    kind: str
    argument: str
    forms: Mapping[str, str] | None = field(default=None, repr=False, hash=False)
    """Verb forms by word, which replace the function if a model provides them."""

    def __call__(self, word: str) -> str | None:
        """Return the changed word, or None if the function does not change it."""
        function = WORD_FUNCTIONS[self.kind][self.argument]
        changed = function(word) if self.forms is None else self.forms.get(word)
        return None if changed == word else changed


@dataclass(frozen=True)
class MergeTransform:
    """Transform that applies a function in `MERGES` to a token and the next token."""

    kind = "merge"
    argument: str

    def __call__(self, word: str) -> str | None:
        """Return the word unchanged, because every word can be merged with the next token."""
        return word

    def merged(self, word: str, following: str) -> tuple[str, ...]:
        """Return the tokens that replace a token and the next token."""
        return MERGES[self.argument](word, following)


MERGES: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "space": lambda word, following: (word + following,),
    "hyphen": lambda word, following: (f"{word}-{following}",),
    "swap": lambda word, following: (following, word),
}
"""Functions that join a token and the next token, join them with a hyphen, or swap them."""


def _split_hyphens(word: str) -> str | None:
    parts = word.split("-")
    return " ".join(parts) if len(parts) > 1 and all(parts) else None


def _verb(tag: str, source: str | None = None) -> WordFunction:
    return lambda word: inflection().verb(word, tag, source)


VERB_TAGS = ("VBD", "VBG", "VBN", "VB", "VBZ")
GROUP_FUNCTIONS: dict[str, dict[str, WordFunction]] = {
    "case": {
        "lower": str.lower,
        "capital": lambda word: word[:1].upper() + word[1:],
        "upper": str.upper,
        "second": lambda word: word[:1] + word[1:2].upper() + word[2:],
        "plural": lambda word: word[:-1].upper() + word[-1:].lower(),
    },
    "verb": {tag: _verb(tag) for tag in VERB_TAGS},
    "number": {
        "plural": lambda word: inflection().plural(word),
        "singular": lambda word: inflection().singular(word),
    },
    "split": {"hyphen": _split_hyphens},
}
"""Word functions in the groups of transforms, by kind and argument.

Case: lowercase, capitalized, uppercase, second letter in uppercase (iPhone), and all letters except
the last one in uppercase (DVDs).
"""
GECTOR_FUNCTIONS: dict[str, dict[str, WordFunction]] = {
    "case": {
        "capitalize": str.capitalize,
        "capitalize_second": lambda word: word[:1] + word[1:].capitalize(),
        "upper_start": lambda word: word[:-1].upper() + word[-1:],
    },
    "verb": {
        f"{source}_{tag}": _verb(tag, source)
        for source, tag in itertools.permutations(VERB_TAGS, 2)
    },
    "number": {"cut": lambda word: word[:-1] or None},
    "unknown": {"label": lambda word: None},
}
"""Additional word functions for GECToR's labels, by kind and argument.

Case: capitalize the word, capitalize it from the second letter, or uppercase all letters except the
last one. Verb: change one form to another. Number: remove the last letter. Unknown: change no word;
the function stands for labels that are missing from a table.
"""
WORD_FUNCTIONS: dict[str, dict[str, WordFunction]] = {
    kind: {**GROUP_FUNCTIONS.get(kind, {}), **GECTOR_FUNCTIONS.get(kind, {})}
    for kind in (*GROUP_FUNCTIONS, "unknown")
}
"""All word functions, by kind and argument."""
GROUPS = ("case", "merge", "split", "verb", "number")
"""Groups of transforms that an edit dictionary can contain in addition to suffix transforms."""
BEFORE_SUFFIXES = (("verb", "VBD"), ("verb", "VBG"), ("verb", "VBN"))
"""Transforms that precede the suffix transforms.

The past tense therefore has the same label for all verbs, and so has each participle. The regular
-s of nouns and verbs remains a suffix, because only the context distinguishes "books" (noun) from
"books" (verb).
"""
FORMS_OF_ENDINGS = {
    **dict.fromkeys(("", "e", "y"), (("number", "singular"), ("verb", "VB"))),
    **dict.fromkeys(("s", "es", "ies"), (("number", "plural"), ("verb", "VBZ"))),
    **dict.fromkeys(("d", "ed", "ied"), (("verb", "VBD"),)),
    "ing": (("verb", "VBG"),),
}
"""Noun and verb transforms (kind, argument), by the regular ending of the form they produce."""
MAX_WORDS = 200_000
"""Maximum number of words in the cache of `Transforms`."""


@dataclass(frozen=True)
class Transforms:
    """The transforms of an edit dictionary.

    If several transforms change a word in the same way, the first one is used.
    """

    table: tuple[Transform, ...] = ()
    spared: tuple[frozenset[str], ...] = ()
    """Words that each transform must not change."""
    _known: dict[str, dict[int, str]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @classmethod
    def of(
        cls, pairs: Iterable[tuple[str, str, Iterable[str]]], groups: Collection[str] = ()
    ) -> Transforms:
        """Create two transforms per suffix pair, one per direction, and the groups' transforms.

        Args:
            pairs: pairs of suffixes, with words that the first transform must not change; the
                second transform must not change the first transform's results for these words
            groups: names in `GROUPS`
        """
        for group in groups:
            if group not in GROUPS:
                raise UsageError(
                    f"{group!r} is not a group of transforms. Expected one of "
                    f"{', '.join(GROUPS)}.{nearest(group, GROUPS)}"
                )
        table: list[Transform] = [
            WordTransform(*name) for name in BEFORE_SUFFIXES if name[0] in groups
        ]
        spared: list[frozenset[str]] = [frozenset()] * len(table)
        for off, on, words in pairs:
            there = SuffixTransform(off, on)
            table += [there, there.inverse]
            spared += [frozenset(words), frozenset(filter(None, map(there, words)))]
        for kind, functions in GROUP_FUNCTIONS.items():
            if kind in groups:
                names = ((kind, argument) for argument in functions)
                table += [WordTransform(*name) for name in names if name not in BEFORE_SUFFIXES]
        if "merge" in groups:
            table += map(MergeTransform, MERGES)
        spared += [frozenset()] * (len(table) - len(spared))
        return cls(tuple(table), tuple(spared))

    def apply(self, number: int, word: str) -> str | None:
        """Return the word that the transform at index `number` changes `word` to, or None.

        If lemminflect's dictionary does not contain the result of a suffix transform, such as
        "childs", a word form in the dictionary is preferred, such as "children". The table must
        contain a transform to this noun or verb form.
        """
        if word in self.spared[number]:
            return None
        transform = self.table[number]
        changed = transform(word)
        if changed is None or not isinstance(transform, SuffixTransform):
            return changed
        forms = self._forms(transform)
        if not forms or inflection().is_word(changed.lower()):
            return changed
        words = filter(None, (form(word) for form in forms))
        return next((form for form in words if inflection().is_word(form.lower())), changed)

    def _forms(self, transform: SuffixTransform) -> list[Transform]:
        """Return the table's transforms to the noun or verb form that the new suffix marks."""
        before, after = map(FORMS_OF_ENDINGS.get, (transform.off, transform.on))
        if before is None or after is None or before == after:
            return []
        return [other for other in self.table if (other.kind, other.argument) in after]

    def match(self, word: str, other: str) -> int | None:
        """Return the index of the first transform that changes `word` to `other`, or None.

        If the word is split, `other` contains spaces.
        """
        changes = self._changes(word).items()
        return next((number for number, changed in changes if changed == other), None)

    @cached_property
    def merges(self) -> dict[str, int]:
        """Indices of the merge transforms, by argument."""
        return {
            transform.argument: number
            for number, transform in enumerate(self.table)
            if isinstance(transform, MergeTransform)
        }

    @cached_property
    def splits(self) -> bool:
        """True if a transform can split a token."""
        return any(transform.kind == "split" for transform in self.table)

    @cached_property
    def _of_words(self) -> list[int]:
        return [n for n, transform in enumerate(self.table) if isinstance(transform, WordTransform)]

    @cached_property
    def _by_suffix(self) -> dict[str, list[int]]:
        """Indices of suffix transforms, by the suffix that they remove."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, transform in enumerate(self.table):
            if isinstance(transform, SuffixTransform):
                numbers[transform.off].append(number)
        return dict(numbers)

    @cached_property
    def _max_suffix(self) -> int:
        return max(map(len, self._by_suffix), default=0)

    def _changes(self, word: str) -> dict[int, str]:
        """Return the results of the transforms that change `word`, by index, without merges."""
        changes = self._known.get(word)
        if changes is None:
            if len(self._known) >= MAX_WORDS:
                self._known.clear()
            numbers = self._of_words.copy()
            for stem in range(max(1, len(word) - self._max_suffix), len(word) + 1):
                numbers += self._by_suffix.get(word[stem:], ())
            changed = ((number, self.table[number](word)) for number in sorted(numbers))
            changes = self._known[word] = {
                number: text
                for number, text in changed
                if text is not None and word not in self.spared[number]
            }
        return changes


def parse_transform(kind: str, argument: str) -> Transform:
    """Return the transform for a kind, such as `suffix`, and its argument, such as `+s`.

    Raise DataError if there is no such transform.
    """
    if kind == SuffixTransform.kind:
        return _parse_suffixes(argument)
    known = MERGES if kind == MergeTransform.kind else WORD_FUNCTIONS[kind]
    if argument not in known:
        raise DataError(
            f"{argument!r} is not a {kind} transform. Expected one of "
            f"{', '.join(known)}.{nearest(argument, known)}"
        )
    return MergeTransform(argument) if known is MERGES else WordTransform(kind, argument)


def with_forms(transform: Transform, forms: Mapping[str, str]) -> Transform:
    """Return a verb transform that uses a table of forms. Raise DataError for other kinds."""
    if transform.kind != "verb" or not isinstance(transform, WordTransform):
        raise DataError(
            f"A {transform.kind} transform cannot have a table of forms. Expected a verb transform."
        )
    return replace(transform, forms=forms)


def _parse_suffixes(name: str) -> SuffixTransform:
    match = re.fullmatch(r"(?:-([^-+]+))?(?:\+([^-+]+))?", name)
    parts = (unescape(part or "") for part in match.groups()) if match else ("", "")
    transform = SuffixTransform(*parts)
    if transform.off == transform.on or transform.argument != name:
        raise DataError(
            f"{name!r} is not a suffix transform. Expected, for example, +s, -s or -e+ing."
        )
    return transform


def escape(text: str, signs: str) -> str:
    """Percent-encode the matches of the regular expression `signs`."""
    return re.sub(signs, lambda sign: "".join(f"%{byte:02X}" for byte in sign[0].encode()), text)


def unescape(text: str) -> str:
    """Decode percent-encoded characters. Return an empty string if they are not valid UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return ""
