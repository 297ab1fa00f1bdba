"""Language filter, and batched language identification with py3langid's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.filters.rules import Filter, Row
from fairseq_ssl.options import option

MAX_BATCHED = 1000
"""Maximum length of a batched line, in bytes. A batch takes a step per byte of its longest line."""
UNKNOWN_SCORE = float(np.finfo(np.float32).min)
"""Score of every language for a line without known features."""


@dataclass(frozen=True)
class LanguageFilter(Filter[tuple[str, ...]]):
    """Drop rows in which a side is not in the expected language, identified with langid.

    A line without n-grams that langid knows, such as digits, cannot be identified and is kept.
    """

    sides: int
    source: str = option("", "language of the source, such as en (default: any)")
    target: str = option("", "language of the target, such as de (default: any)")
    candidates: str = option("", "candidate languages, such as en+de+fr (default: all)")

    def __post_init__(self) -> None:
        if self.target and self.sides < 2:
            raise UsageError("`target` is set, but the text has only one side. Set only `source`.")
        if not (self.source or self.target):
            raise UsageError(
                "Neither `source` nor `target` is set. Set at least one of them, for example with: "
                "langid:source=en"
            )
        labels = _identifier("").labels
        candidates = self.candidates.split("+") if self.candidates else []
        expected = [language for language in self._expected if language]
        for language in [*expected, *candidates]:
            if language not in labels:
                raise UsageError(
                    f"langid does not support the language {language!r}."
                    f"{nearest(language, labels)} Expected one of {', '.join(sorted(labels))}."
                )
        outside = [language for language in expected if language not in (candidates or labels)]
        if outside:
            raise UsageError(
                f"`candidates` is {self.candidates} and does not contain {outside[0]!r}. Add the "
                "source and target languages to the candidates."
            )
        _identifier(self.candidates)  # load the model once, before workers are forked

    def score(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """Return the language of each side of each row, or "" if unknown or not checked."""
        sides = [
            self.identify([row[side] for row in rows]) if language else [""] * len(rows)
            for side, language in enumerate(self._expected)
        ]
        return list(zip(*sides, strict=True))

    def accept(self, score: tuple[str, ...]) -> bool:
        """Return True if each side has the expected language or no known language."""
        return all(
            language in ("", expected)
            for language, expected in zip(score, self._expected, strict=True)
        )

    def identify(self, lines: Sequence[str]) -> list[str]:
        """Return the language of each line, or "" for a line without known features."""
        identifier = _identifier(self.candidates)
        texts = [identifier._encode(line) for line in lines]
        batched = [row for row, text in enumerate(texts) if 0 < len(text) <= MAX_BATCHED]
        languages = [""] * len(lines)
        for row in {row for row, text in enumerate(texts) if text}.difference(batched):
            language, score = identifier.classify(lines[row])
            languages[row] = "" if score <= UNKNOWN_SCORE else str(language)
        if batched:
            batch = _identify_batch(identifier, [texts[row] for row in batched])
            for row, language in zip(batched, batch, strict=True):
                languages[row] = language
        return languages

    @property
    def _expected(self) -> tuple[str, ...]:
        return (self.source, self.target)[: self.sides]


@lru_cache
def _identifier(candidates: str) -> Any:
    """Load langid's model for candidates such as ``en+de``. This takes one or two seconds."""
    package = import_optional("py3langid.langid", "The filter langid", "wmt")
    identifier = package.LanguageIdentifier.from_model_file(package.MODEL_FILE)
    if candidates:
        identifier.set_languages(candidates.split("+"))
    return identifier


def _identify_batch(identifier: Any, texts: Sequence[bytes]) -> list[str]:
    """Return the language of each text, as in `identifier.classify`, but five times as fast."""
    lines, features, counts = _count_features(identifier, texts)
    is_used = np.zeros(len(identifier.nb_ptc), dtype=np.bool_)
    is_used[features] = True
    table = identifier.nb_ptc[is_used].astype(np.float32)
    index = (np.cumsum(is_used) - 1)[features]
    weights = np.log1p(counts, dtype=np.float32)
    bounds = np.searchsorted(lines, np.arange(len(texts) + 1)).tolist()
    languages = []
    for start, end in pairwise(bounds):
        scores = weights[start:end] @ table.take(index[start:end], axis=0) + identifier.nb_pc
        languages.append(identifier.nb_classes[int(scores.argmax())] if start < end else "")
    return languages


def _count_features(
    identifier: Any, texts: Sequence[bytes]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the line index, the feature index and the count of each feature in each line.

    The arrays are sorted by line. In each step, langid's automaton reads one byte of each line. It
    reads the lines in order of decreasing length, so that unfinished lines come first.
    """
    next_states, feature_of = _automaton(identifier)
    rows = np.asarray(identifier.tk_row).astype(np.int64) << 8
    data = np.frombuffer(b"".join(texts), np.uint8)
    size = np.fromiter(map(len, texts), np.int64, len(texts))
    order = np.argsort(-size, kind="stable")
    position = (np.cumsum(size) - size)[order]
    active = np.searchsorted(-size[order], -np.arange(size.max()))
    offset = order * len(identifier.nb_ptc)
    row = np.full(len(texts), rows[0])
    keys = []
    for step, count in enumerate(active.tolist()):
        state = next_states[row[:count] + data[position[:count] + step]]
        feature, row = feature_of[state], rows[state]
        ends = np.flatnonzero(feature >= 0)
        keys.append(offset[ends] + feature[ends])
    key, counts = np.unique(np.concatenate(keys), return_counts=True)
    line, feature = np.divmod(key, len(identifier.nb_ptc))
    return line, feature, counts


@lru_cache
def _automaton(identifier: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the table of next states, and the feature index of each state, -1 if it has none."""
    return np.asarray(identifier.tk_nextmove), np.asarray(identifier.tk_output, dtype=np.int32)
