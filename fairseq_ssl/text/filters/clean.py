"""Length and ratio, as the script clean-corpus-n of Moses has them (thesis, section 5.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.filters.filter import Row
from fairseq_ssl.text.specs import option


class Lengths(NamedTuple):
    """What is measured of a row."""

    tokens: tuple[int, ...]
    """Of each side."""
    longest_word: int
    """Characters of the longest token of all."""


@dataclass(frozen=True)
class CleanFilter:
    """Drops what is short, long, or of unequal sides, by the rule of Moses' clean-corpus-n.

    Tokens stand between whitespace. All limits may be met: a side of `max` tokens stays, and so
    does a pair whose longer side has exactly `ratio` times the tokens of the shorter.
    """

    min: int = option(1, "tokens that each side has at least; 1 or more")
    max: int = option(250, "tokens that each side has at most")
    ratio: float = option(3.0, "the tokens of one side are at most so many times the other's")
    longest_word: int = option(1000, "characters that a token has at most")

    def __post_init__(self) -> None:
        if not (1 <= self.min <= self.max and self.ratio >= 1 and self.longest_word >= 1):
            raise UsageError(
                f"The filter clean has min={self.min}, max={self.max}, ratio={self.ratio} and "
                f"longest-word={self.longest_word}; expected 1 or more, and max no less than min."
            )

    def score(self, rows: Sequence[Row]) -> list[Lengths]:
        """Measure the rows."""
        return [_lengths([line.split() for line in row]) for row in rows]

    def accept(self, score: Lengths) -> bool:
        """Tell whether no limit is passed."""
        fewest, most = min(score.tokens), max(score.tokens)
        if fewest < self.min or most > self.max or score.longest_word > self.longest_word:
            return False
        return most / fewest <= self.ratio


def _lengths(sides: list[list[str]]) -> Lengths:
    longest = max(max(map(len, tokens), default=0) for tokens in sides)
    return Lengths(tuple(map(len, sides)), longest)
