"""From subwords back to text as people write it."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_ssl.text.needed_package import needed

Rewrite = Callable[[str], str]

SUBWORDS: dict[str, Rewrite] = {
    "none": lambda line: line,
    "sentencepiece": lambda line: line.replace(" ", "").replace("\u2581", " ").strip(),
    "subword-nmt": lambda line: f"{line} ".replace("@@ ", "").rstrip(),
}
"""How each kind of subwords is joined to words."""


def detokeniser(subwords: str, moses: str | None = None) -> Rewrite:
    """Return what joins subwords and, with a language in `moses`, undoes Moses' tokenisation."""
    join = SUBWORDS[subwords]
    if moses is None:
        return join
    package = needed("sacremoses", "Undoing the Moses tokenisation", "fairseq")
    undo = package.MosesDetokenizer(lang=moses).detokenize
    return lambda line: str(undo(join(line).split()))
