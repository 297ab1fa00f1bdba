"""A dictionary of fairseq's that does not forget words it lacks."""

from __future__ import annotations

from typing import Any

from fairseq.data import Dictionary


class OovDictionary(Dictionary):
    """Gives each unknown word an id of its own above all others, and gives the word back for it.

    A model takes such ids for <unk>; what it copies of them comes out as it came in. The ids
    hold in one process: they are never to be stored.
    """

    def __init__(self, **options: Any) -> None:
        self.unknown: dict[str, int] = {}
        self.surfaces: list[str] = []
        super().__init__(**options)

    def index(self, sym: str) -> int:
        """Return the id of a word, known or not."""
        found = self.indices.get(sym)
        if found is None:
            found = self.unknown.get(sym)
        if found is None:
            found = self.unknown[sym] = len(self.symbols) + len(self.surfaces)
            self.surfaces.append(sym)
        return int(found)

    def __getitem__(self, idx: Any) -> str:
        """Return the word of an id."""
        beyond = int(idx) - len(self.symbols)
        if 0 <= beyond < len(self.surfaces):
            return self.surfaces[beyond]
        return str(super().__getitem__(idx))

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """Add a word while there are no unknown ones, whose ids it would take; then look it up."""
        if self.surfaces:
            return self.index(word)
        return int(super().add_symbol(word, n, overwrite))
