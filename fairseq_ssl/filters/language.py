"""The language that each side is written in (thesis, section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.text.specs import option

NOTHING_FOUND = float(np.finfo(np.float32).min)
"""The score of every language for a line in which the model knows nothing."""


@dataclass(frozen=True)
class LanguageFilter:
    """Drops what is identified as another language, by langid on the sides that are named.

    A line in which the model knows nothing, such as one of digits, is identified as none and
    stays.
    """

    sides: int
    source: str = option("", "language that the source is to be in, as en; empty: any")
    target: str = option("", "language that the target is to be in, as de; empty: any")
    candidates: str = option("", "languages to choose among, as en+de+fr; empty: all it knows")

    def __post_init__(self) -> None:
        if self.target and self.sides < 2:
            raise UsageError("The filter langid has a target, but there is only a SOURCE.")
        if not (self.source or self.target):
            raise UsageError("The filter langid needs a language, as in langid:source=en:target=de")
        labels = _identifier("").labels
        for language in [*self._wanted, *self._candidates]:
            if language not in labels:
                raise UsageError(
                    f"langid does not know the language {language!r}.{nearest(language, labels)} "
                    f"It knows: {' '.join(sorted(labels))}."
                )
        outside = [found for found in self._wanted if found not in (self._candidates or labels)]
        if outside:
            raise UsageError(
                f"The filter langid could never find {outside[0]!r}: it is not among the "
                f"candidates {self.candidates}."
            )
        _identifier(self.candidates)  # before workers begin, which then need not load it

    def score(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """Return the language of each side; empty for one that may be any, or says nothing."""
        identifier = _identifier(self.candidates)
        wanted = (self.source, self.target)[: self.sides]
        return [
            tuple(
                _language(identifier, line) if language else ""
                for line, language in zip(row, wanted, strict=True)
            )
            for row in rows
        ]

    def accept(self, score: tuple[str, ...]) -> bool:
        """Tell whether no side is in a language other than the one it should be in."""
        wanted = (self.source, self.target)[: self.sides]
        return all(found in ("", asked) for found, asked in zip(score, wanted, strict=True))

    @property
    def _wanted(self) -> list[str]:
        return [language for language in (self.source, self.target) if language]

    @property
    def _candidates(self) -> list[str]:
        return self.candidates.split("+") if self.candidates else []


def _language(identifier: Any, line: str) -> str:
    language, score = identifier.classify(line)
    return "" if score <= NOTHING_FOUND else str(language)


@lru_cache
def _identifier(candidates: str) -> Any:
    """Load the model, which takes a second or two."""
    package = import_optional("py3langid.langid", "The filter langid", "wmt")
    identifier = package.LanguageIdentifier.from_model_file(package.MODEL_FILE)
    if candidates:
        identifier.set_languages(candidates.split("+"))
    return identifier
