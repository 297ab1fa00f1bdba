"""Labels of source tokens, and the names of labels in files (PIE, equation 1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from fairseq_ssl.edits.transforms import CASES, CaseTransform, SuffixTransform, Transform
from fairseq_ssl.errors import DataError, nearest

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
