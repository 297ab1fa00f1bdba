"""Edit labels and their names (PIE, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_ssl.edits.transforms import (
    WORD_FUNCTIONS,
    MergeTransform,
    SuffixTransform,
    Transform,
    escape,
    parse_transform,
    unescape,
)
from fairseq_ssl.errors import DataError, nearest

Gram = tuple[str, ...]
"""Tokens of a q-gram."""


@dataclass(frozen=True)
class Label:
    """An edit label: keep, delete, append, replace or transform a token."""

    kept: bool
    """True if the token is kept. The tokens of `gram` then follow it."""
    gram: Gram = ()
    """Tokens to append after the token, or to replace it with."""
    transform: Transform | None = None

    def __str__(self) -> str:
        """Return the name of the label, without spaces. `parse_label` is the inverse."""
        if self.transform is not None:
            return f"{self.transform.kind.upper()}_{self.transform.argument}"
        if self.gram:
            return f"{'APPEND' if self.kept else 'REPLACE'}_{gram_name(self.gram)}"
        return "KEEP" if self.kept else "DELETE"

    @property
    def kind(self) -> str:
        """Kind of the edit: keep, delete, append, replace, or the kind of its transform."""
        return str(self).partition("_")[0].lower()

    @property
    def merge(self) -> MergeTransform | None:
        """Transform that also changes the next token, or None if the label does not merge."""
        return self.transform if isinstance(self.transform, MergeTransform) else None

    def edited(self, token: str) -> Sequence[str]:
        """Return the tokens into which the label changes `token`.

        Raise DataError if a transform cannot change the token.
        """
        if self.transform is not None:
            changed = self.transform(token)
            if changed is None:
                raise DataError(
                    f"The label {self} cannot change the token {token!r}. Choose a different label."
                )
            return changed.split(" ")
        return (token, *self.gram) if self.kept else self.gram


KEEP = Label(True)
DELETE = Label(False)


def gram_name(gram: Gram) -> str:
    """Join the tokens of a q-gram with underscores. Percent-encode %, _ and whitespace."""
    return "_".join(escape(token, r"[%_\s]") for token in gram)


def parse_gram(name: str) -> Gram:
    """Return the tokens of the q-gram named `name`. Raise DataError if the name is invalid."""
    gram = tuple(map(unescape, name.split("_")))
    if not all(gram) or gram_name(gram) != name:
        raise DataError(
            f"{name!r} is not a q-gram. Expected tokens joined with underscores, such as of_the. "
            "Write % as %25 and _ as %5F."
        )
    return gram


def parse_label(name: str) -> Label:
    """Return the label named `name`. Raise DataError if the name is invalid.

    KEEP and DELETE are always the same objects.
    """
    if name in _PLAIN:
        return _PLAIN[name]
    kind, _, argument = name.partition("_")
    if not argument or kind not in _KINDS:
        *others, last = (f"{kind}_" for kind in _KINDS)
        raise DataError(
            f"{name!r} is not a label. Expected {', '.join(_PLAIN)} or a name that begins with "
            f"{', '.join(others)} or {last}.{nearest(kind, [*_PLAIN, *_KINDS])}"
        )
    if kind in _TRANSFORMS:
        return Label(False, transform=parse_transform(kind.lower(), argument))
    return Label(kind == "APPEND", parse_gram(argument))


_PLAIN = {str(label): label for label in (KEEP, DELETE)}
_TRANSFORMS = tuple(
    kind.upper() for kind in (SuffixTransform.kind, *WORD_FUNCTIONS, MergeTransform.kind)
)
_KINDS = ("APPEND", "REPLACE", *_TRANSFORMS)
