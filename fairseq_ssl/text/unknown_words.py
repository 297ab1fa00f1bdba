"""What to put for the ``<unk>`` of an output (thesis, section 5.3.8)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

UNKNOWN = "<unk>"


@dataclass
class UnknownCopies:
    """Copies source tokens to the place of ``<unk>``, and counts how often it could and not.

    Candidates are the source tokens that exactly one of the two vocabularies has: the model
    could read such a token and not write it, or the other way round. The first ``<unk>`` takes
    the first of them, the second the second, and so on. An ``<unk>`` for which none is left
    stays.
    """

    source_words: Set[str]
    target_words: Set[str]
    copied: int = field(default=0, init=False)
    left: int = field(default=0, init=False)

    def __call__(self, output: str, source: str) -> str:
        """Return a line of output with tokens of the line it was made of."""
        if UNKNOWN not in output:
            return output
        rare = (token for token in source.split(" ") if self._in_one(token))
        tokens = output.split(" ")
        for place, token in enumerate(tokens):
            if token == UNKNOWN:
                tokens[place] = next(rare, UNKNOWN)
                self.copied += tokens[place] != UNKNOWN
                self.left += tokens[place] == UNKNOWN
        return " ".join(tokens)

    def _in_one(self, token: str) -> bool:
        return (token in self.source_words) != (token in self.target_words)


def replaced(output: str, text: str) -> str:
    """Put `text` for every ``<unk>``."""
    return output.replace(UNKNOWN, text)
