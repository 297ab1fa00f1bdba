"""What systems made of each sentence, beside what they were given and what was wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.lines import read_lines

SOURCE, REFERENCE = "source", "reference"


@dataclass
class Sentences:
    """Lines of the same sentences."""

    systems: list[str]
    outputs: list[list[str]]
    """By system."""
    source: list[str] | None = None
    references: list[list[str]] = field(default_factory=list)
    types: list[list[str]] | None = None
    """Of the errors in each source."""
    scores: list[list[float]] | None = None
    """By system."""
    metric: str = ""
    """That the scores are of."""

    def check(self, names: Sequence[Path]) -> None:
        """Refuse files of unlike lengths; `names` are those of the outputs."""
        wanted = len(self.outputs[0])
        parts = [*zip(map(str, names), self.outputs, strict=True)]
        parts += [("the source", self.source)] if self.source is not None else []
        parts += [("a reference", one) for one in self.references]
        for name, lines in parts:
            if len(lines) != wanted:
                raise DataError(
                    f"{names[0]} has {wanted} lines and {name} {len(lines)}. Expected the same "
                    "sentences on all sides; --set chooses the outputs."
                )

    def against(self) -> str:
        """Return what edits are marked against: what the outputs are most like."""
        if self.source is not None and (self.types is not None or self._is_corrected()):
            return SOURCE
        if self.references:
            return REFERENCE if len(self.references) == 1 else f"{REFERENCE} 1"
        return self.systems[0]

    def _is_corrected(self) -> bool:
        """Tell whether outputs share most of their words with the source."""
        assert self.source is not None
        shared = total = 0
        for given, made in zip(self.source[:200], self.outputs[0][:200], strict=True):
            words = set(given.split())
            shared += len(words & set(made.split()))
            total += len(words)
        return 2 * shared > total

    def content(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        return {
            "systems": self.systems,
            "outputs": self.outputs,
            "source": self.source,
            "references": self.references,
            "types": self.types,
            "scores": self.scores,
        }


def read_all(path: Path) -> list[str]:
    """Read the lines of a file."""
    return list(read_lines(path))
