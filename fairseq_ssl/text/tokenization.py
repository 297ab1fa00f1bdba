"""Moses' tokenization and truecasing, and from tokens or subwords back to plain text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import read_lines


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
    moses = import_optional("sacremoses", "Moses' tokenization")
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
    package = import_optional("sacremoses", "Undoing the Moses tokenization")
    undo = package.MosesDetokenizer(lang=moses).detokenize
    return lambda line: str(undo(join(line).split()))


COUNT = re.compile(r"\([\d.e+-]+(/[\d.e+-]+)?\)")


class CaseCounts:
    """Counts how words are written where no sentence begins, line by line.

    sacremoses' own training holds every token of the text; this holds every word once.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._weights = _sacremoses().MosesTruecaser().learn_truecase_weights

    def add(self, line: str) -> None:
        """Count the tokens of a line that tell how they are written."""
        self.counts.update([token for _, token, _ in self._weights(line.split())])

    def write(self, path: Path) -> int:
        """Write the model, and return the number of words in it."""
        ways: dict[str, list[tuple[str, int]]] = {}
        for token, count in self.counts.items():
            ways.setdefault(token.lower(), []).append((token, count))
        with atomic_lines(path) as file:
            for forms in ways.values():
                forms.sort(key=lambda form: -form[1])  # of equal ones the first seen leads
                (best, most), *others = forms
                total = sum(count for _, count in forms)
                words = [f"{best} ({most}/{total})", *(f"{word} ({n})" for word, n in others)]
                file.write(f"{' '.join(words)}\n")
        return len(ways)


def truecaser(model: Path) -> LineRewriter:
    """Return what gives each token its case: the usual one at the beginning of a sentence.

    Elsewhere a token stays if the model has seen it so, as Moses has it. That is an option of
    sacremoses' (`use_known`), and off by default there.
    """
    moses = _sacremoses().MosesTruecaser
    truecaser = moses()
    truecaser.model = _read_case_counts(model)
    split = moses.split_xml

    def split_linearly(line: str) -> Any:
        """Split at spaces where there is no markup; `split_xml` takes quadratic time."""
        return split(line) if "<" in line or ">" in line else line.split()

    truecaser.split_xml = split_linearly
    return lambda line: str(truecaser.truecase(line, return_str=True, use_known=True))


def detruecaser() -> LineRewriter:
    """Return what writes the first word of each sentence with a capital."""
    detruecase = _sacremoses().MosesDetruecaser().detruecase
    return lambda line: str(detruecase(line, return_str=True))


def _sacremoses() -> Any:
    return import_optional("sacremoses", "Truecasing")


def _read_case_counts(path: Path) -> dict[str, Any]:
    """Read a model as MosesTruecaser has it: the best ways by word, and the other ways."""
    best: dict[str, str] = {}
    known: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()
        words, counts = fields[::2], fields[1::2]
        if not words or len(words) != len(counts) or not all(map(COUNT.fullmatch, counts)):
            raise DataError(
                f"{path}:{number} is {line[:80]!r}; expected words and their counts, as in: "
                "the (70/75) The (5). Is this a model of `fairseq-ssl truecase train`, or Moses'?"
            )
        best[words[0].lower()] = words[0]
        known.update(words[1:])
    if not best:
        raise DataError(f"{path} is empty; expected a truecasing model. Train it again.")
    return {"best": best, "known": known}


def match_case(word: str, other: str) -> str:
    """Write another word in capitals, or with a capital, where `word` is."""
    if len(word) > 1 and word.isupper():
        return other.upper()
    return other[0].upper() + other[1:] if word[0].isupper() else other
