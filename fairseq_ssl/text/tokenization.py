"""Moses tokenization, and from tokens or subwords back to plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq_ssl.errors import DataError, import_optional


def moses_tokenizer(
    language: str, dashes: bool = False, escape: bool = True, normalize: bool = False
) -> LineRewriter:
    """Return what cuts a line into Moses' tokens, with spaces between.

    Args:
        language: whose abbreviations keep their full stop, and whose apostrophes stay with a word.
        dashes: write ``well-known`` as ``well @-@ known``.
        escape: write what means something to Moses' decoder as entities, ``|`` as ``&#124;``.
        normalize: first make quotes, dashes and spaces alike.
    """
    moses = import_optional("sacremoses", "Moses' tokenization", "fairseq")
    tokenize = _quick(moses.MosesTokenizer(lang=language)).tokenize

    def tokens(line: str) -> str:
        return str(tokenize(line, aggressive_dash_splits=dashes, return_str=True, escape=escape))

    if not normalize:
        return tokens
    alike = moses.MosesPunctNormalizer(lang=language).normalize
    return lambda line: tokens(alike(line))


def _quick(tokenizer: Any) -> Any:
    """Let it look letters up in sets that are made once, instead of anew for every token."""
    lower, letters = frozenset(tokenizer.IsLower), frozenset(tokenizer.IsAlpha)
    tokenizer.islower = lower.issuperset
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokenizer


LineRewriter = Callable[[str], str]
"""A function from line to line."""

SUBWORDS: dict[str, LineRewriter] = {
    "none": lambda line: line,
    "sentencepiece": lambda line: line.replace(" ", "").replace("\u2581", " ").strip(),
    "subword-nmt": lambda line: f"{line} ".replace("@@ ", "").rstrip(),
}
"""Functions that join subwords of each kind."""


def subword_joiner(subwords: str | None) -> LineRewriter:
    """Return a function that joins subwords of a kind (default: sentencepiece, checked)."""
    if subwords is not None:
        return SUBWORDS[subwords]
    known = False

    def join(line: str) -> str:
        nonlocal known
        if not known and "\u2581" in line:
            known = True
        elif not known and " " in line:
            raise DataError(
                f"{line[:40]!r} has no \u2581: these are not subwords of sentencepiece, "
                "which are expected by default. Set `subwords` to their kind."
            )
        return SUBWORDS["sentencepiece"](line)

    return join


def moses_detokenizer(subwords: str | None, moses: str | None = None) -> LineRewriter:
    """Return a function that joins subwords and, for a language, undoes Moses' tokenization."""
    join = subword_joiner(subwords)
    if moses is None:
        return join
    package = import_optional("sacremoses", "Undoing the Moses tokenization", "fairseq")
    undo = package.MosesDetokenizer(lang=moses).detokenize
    return lambda line: str(undo(join(line).split()))
