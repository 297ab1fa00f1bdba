"""Language identification of each side (thesis, section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.filters.rules import Filter, Row
from fairseq_ssl.text.specs import option

UNKNOWN_SCORE = float(np.finfo(np.float32).min)
"""The score of every language for a line without known features."""


@dataclass(frozen=True)
class LanguageFilter(Filter[tuple[str, ...]]):
    """Drops rows in another language, as identified by langid.

    A line without known features, such as a line of digits, has no language and is kept.
    """

    sides: int
    source: str = option("", "language of the source, for example en; empty: any")
    target: str = option("", "language of the target, for example de; empty: any")
    candidates: str = option("", "languages to choose from, for example en+de+fr; empty: all")

    def __post_init__(self) -> None:
        if self.target and self.sides < 2:
            raise UsageError("The filter langid has a target, but there is only a source.")
        if not (self.source or self.target):
            raise UsageError(
                "The filter langid needs a language, for example langid:source=en:target=de"
            )
        labels = _identifier("").labels
        for language in [*self._expected, *self._candidates]:
            if language not in labels:
                raise UsageError(
                    f"langid does not know the language {language!r}.{nearest(language, labels)} "
                    f"It knows: {' '.join(sorted(labels))}."
                )
        outside = [found for found in self._expected if found not in (self._candidates or labels)]
        if outside:
            raise UsageError(
                f"The filter langid cannot find {outside[0]!r}, which is not one of the candidates "
                f"{self.candidates}."
            )
        _identifier(self.candidates)  # before workers start, which then need not load it

    def score(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """Return the language of each side, empty if it is not checked or unknown."""
        identifier = _identifier(self.candidates)
        expected = (self.source, self.target)[: self.sides]
        return [
            tuple(
                _language(identifier, line) if language else ""
                for line, language in zip(row, expected, strict=True)
            )
            for row in rows
        ]

    def accept(self, score: tuple[str, ...]) -> bool:
        """Return True if no side is in a different language than expected."""
        expected = (self.source, self.target)[: self.sides]
        return all(found in ("", asked) for found, asked in zip(score, expected, strict=True))

    @property
    def _expected(self) -> list[str]:
        return [language for language in (self.source, self.target) if language]

    @property
    def _candidates(self) -> list[str]:
        return self.candidates.split("+") if self.candidates else []


def _language(identifier: Any, line: str) -> str:
    language, score = identifier.classify(line)
    return "" if score <= UNKNOWN_SCORE else str(language)


@lru_cache
def _identifier(candidates: str) -> Any:
    """Load the model, which takes one or two seconds."""
    package = import_optional("py3langid.langid", "The filter langid", "wmt")
    identifier = package.LanguageIdentifier.from_model_file(package.MODEL_FILE)
    if candidates:
        identifier.set_languages(candidates.split("+"))
    return identifier
