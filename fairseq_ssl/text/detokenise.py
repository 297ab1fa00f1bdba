"""From subwords back to text as people write it."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.needed_package import needed

Rewrite = Callable[[str], str]
"""Makes a line of a line, whatever for."""

SUBWORDS: dict[str, Rewrite] = {
    "none": lambda line: line,
    "sentencepiece": lambda line: line.replace(" ", "").replace("\u2581", " ").strip(),
    "subword-nmt": lambda line: f"{line} ".replace("@@ ", "").rstrip(),
}
"""How each kind of subwords is joined to words."""


def joiner(subwords: str | None, flag: str = "--subwords") -> Rewrite:
    """Return what joins subwords of a kind; None is sentencepiece's, if the text looks like it."""
    if subwords is not None:
        return SUBWORDS[subwords]
    known = False

    def join(line: str) -> str:
        nonlocal known
        if not known and "\u2581" in line:
            known = True
        elif not known and " " in line:
            raise DataError(
                f"{line[:40]!r} has no \u2581: these do not look like sentencepiece's subwords, "
                f"which are expected by default. Say with {flag} what they are."
            )
        return SUBWORDS["sentencepiece"](line)

    return join


def detokeniser(subwords: str | None, moses: str | None = None) -> Rewrite:
    """Return what joins subwords and, with a language in `moses`, undoes Moses' tokenisation."""
    join = joiner(subwords)
    if moses is None:
        return join
    package = needed("sacremoses", "Undoing the Moses tokenisation", "fairseq")
    undo = package.MosesDetokenizer(lang=moses).detokenize
    return lambda line: str(undo(join(line).split()))
