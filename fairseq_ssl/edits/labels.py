"""Labels of source tokens: their names, extraction from a pair, application to a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from fairseq_ssl.edits.alignment import Change, align_tokens
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID, EditDictionary
from fairseq_ssl.edits.transforms import CASES, CaseTransform, SuffixTransform, Transform
from fairseq_ssl.errors import DataError, nearest

Gram = tuple[str, ...]
"""Tokens put in together."""


@dataclass(frozen=True)
class Label:
    """What becomes of a token: it stays or goes, or is transformed; and what is put in there."""

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
        """Return what stands in the token's place; raises DataError if it can not be done."""
        if self.transform is not None:
            changed = self.transform(token)
            if changed is None:
                raise DataError(f"{self} does not fit the token {token!r}.")
            return (changed,)
        return (token, *self.gram) if self.kept else self.gram


KEEP = Label(True)
DELETE = Label(False)


def gram_name(gram: Gram) -> str:
    """Join tokens to one word."""
    return "_".join(_escaped(token, r"[%_\s]") for token in gram)


def parse_gram(name: str) -> Gram:
    """Undo `gram_name`."""
    gram = tuple(map(_plain, name.split("_")))
    if not all(gram) or gram_name(gram) != name:
        raise DataError(f"{name!r} is no tokens joined with _; expected as in of_the, % as %25.")
    return gram


def parse_label(name: str) -> Label:
    """Return the label of a name; a plain one is always the same object."""
    if name in _PLAIN:
        return _PLAIN[name]
    kind, _, argument = name.partition("_")
    if not argument or kind not in _PARSED:
        known = [*_PLAIN, *(f"{kind}_" for kind in _PARSED)]
        raise DataError(
            f"{name!r} is no label; expected {', '.join(known[:-1])} or {known[-1]}, the latter "
            f"with what they do, as in APPEND_of_the.{nearest(kind, [*_PLAIN, *_PARSED])}"
        )
    return _PARSED[kind](argument)


def _parse_suffixes(name: str) -> Label:
    found = re.fullmatch(r"(?:-([^-+]+))?(?:\+([^-+]+))?", name)
    transform = SuffixTransform(*(_plain(part or "") for part in found.groups())) if found else None
    if transform is None or transform.off == transform.on or _suffixes(transform) != name:
        raise DataError(f"{name!r} changes no suffix; expected as in +s, -s or -e+ing.")
    return Label(False, transform=transform)


def _parse_case(name: str) -> Label:
    if name not in CASES:
        raise DataError(
            f"{name!r} is no case; expected one of {', '.join(CASES)}.{nearest(name, CASES)}"
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
    """Write these signs, and no others, as % and the two digits of each of their bytes."""
    return re.sub(signs, lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), text)


def _plain(text: str) -> str:
    """Undo `_escaped`; empty where no text was escaped so."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return ""


INSIDE_WORD = "##"
"""The first characters of a BERT's word pieces that continue a word."""


class Extracted(NamedTuple):
    """The edits that make a target of a source, and their labels in a dictionary."""

    ids: list[int]
    """The labels of the start and of each token."""
    changes: list[Change]
    """The edits; those whose place is labelled to be kept have no label in the dictionary."""

    @property
    def lost(self) -> list[Change]:
        """The edits without a label."""
        return [change for change in self.changes if self.ids[change.place] == KEEP_ID]


@dataclass(frozen=True)
class Extraction:
    """Finds the labels of pairs in a dictionary."""

    dictionary: EditDictionary

    def __call__(self, source: Sequence[str], target: Sequence[str]) -> Extracted | None:
        """Return the labels; None for sides too long and too different to compare.

        What has no label is not done, and a token that it would replace is kept.
        """
        found = align_tokens(source, target)
        if found is None:
            return None
        ids = [KEEP_ID] * (len(source) + 1)
        for change in found:
            ids[change.place] = self._label(source, change)
        return Extracted(ids, found)

    def _label(self, source: Sequence[str], change: Change) -> int:
        dictionary = self.dictionary
        if change.kept:
            return self._suffix(source, change) or dictionary.appends.get(change.inserted, KEEP_ID)
        if not change.inserted:
            return DELETE_ID
        if len(change.inserted) == 1:
            number = dictionary.transforms.match(source[change.place - 1], change.inserted[0])
            if number is not None:
                return dictionary.first_transform + number
        return dictionary.replaces.get(change.inserted, KEEP_ID)

    def _suffix(self, source: Sequence[str], change: Change) -> int:
        """Return the transform that adds a suffix, if a word piece is all that is inserted; or 0.

        The authors' code labels "play" before an inserted "##s" so, too.
        """
        (piece, *others), transforms = change.inserted, self.dictionary.transforms
        if others or not change.place or not piece.startswith(INSIDE_WORD):
            return 0
        word = source[change.place - 1]
        number = transforms.match(word, word + piece.removeprefix(INSIDE_WORD))
        return 0 if number is None else self.dictionary.first_transform + number


def apply_labels(source: Sequence[str], labels: Sequence[Label]) -> list[str]:
    """Carry out the edits; the first is that of the sentence's start.

    Raises DataError where a label does not fit its token, and where there are too few or too
    many.
    """
    if len(labels) != len(source) + 1:
        raise DataError(
            f"There are {len(labels)} labels for {len(source)} tokens; expected one for the start "
            f"of the sentence and one for each token: {len(source) + 1}."
        )
    if not labels[0].kept:
        raise DataError(f"{labels[0]} does not fit the start; expected KEEP or APPEND.")
    result = list(labels[0].gram)
    for token, label in zip(source, labels[1:], strict=True):
        if label is KEEP:
            result.append(token)
        else:
            result += label.edited(token)
    return result
