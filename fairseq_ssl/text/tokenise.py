"""From text as people write it to Moses' tokens."""

from __future__ import annotations

from typing import Any

from fairseq_ssl.text.detokenise import Rewrite
from fairseq_ssl.text.needed_package import needed


def tokeniser(
    language: str, dashes: bool = False, escape: bool = True, normalise: bool = False
) -> Rewrite:
    """Return what cuts a line into Moses' tokens, with spaces between.

    Args:
        language: whose abbreviations keep their full stop, and whose apostrophes stay with a word.
        dashes: write ``well-known`` as ``well @-@ known``.
        escape: write what means something to Moses' decoder as entities, ``|`` as ``&#124;``.
        normalise: first make quotes, dashes and spaces alike.
    """
    moses = needed("sacremoses", "Moses' tokenisation", "fairseq")
    tokenise = _quick(moses.MosesTokenizer(lang=language)).tokenize

    def tokens(line: str) -> str:
        return str(tokenise(line, aggressive_dash_splits=dashes, return_str=True, escape=escape))

    if not normalise:
        return tokens
    alike = moses.MosesPunctNormalizer(lang=language).normalize
    return lambda line: tokens(alike(line))


def _quick(tokeniser: Any) -> Any:
    """Let it look letters up in sets that are made once, instead of anew for every token."""
    lower, letters = frozenset(tokeniser.IsLower), frozenset(tokeniser.IsAlpha)
    tokeniser.islower = lower.issuperset
    tokeniser.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokeniser
