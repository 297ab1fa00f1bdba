"""Dictionary with ids for out-of-vocabulary words."""

from __future__ import annotations

from typing import Any

from fairseq.data import Dictionary


class OovDictionary(Dictionary):
    """fairseq dictionary that assigns an id beyond its size to each out-of-vocabulary word.

    Models embed these ids as <unk> and can copy them to the output. The ids are valid only within
    one process and must not be stored.
    """

    def __init__(self, **options: Any) -> None:
        self.unknown: dict[str, int] = {}
        self.surfaces: list[str] = []
        super().__init__(**options)

    def index(self, sym: str) -> int:
        """Return the id of a word. Assign a new id to an unknown word."""
        index = self.indices.get(sym)
        if index is None:
            index = self.unknown.get(sym)
        if index is None:
            index = self.unknown[sym] = len(self.symbols) + len(self.surfaces)
            self.surfaces.append(sym)
        return int(index)

    def forget_unknown(self) -> None:
        """Forget the out-of-vocabulary words. Their ids become invalid."""
        self.unknown.clear()
        self.surfaces.clear()

    def __getitem__(self, idx: Any) -> str:
        """Return the word with the id `idx`."""
        beyond = int(idx) - len(self.symbols)
        if 0 <= beyond < len(self.surfaces):
            return self.surfaces[beyond]
        return str(super().__getitem__(idx))

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """Add a word to the vocabulary and return its id.

        Once unknown words have ids, the vocabulary cannot grow, and the word is only looked up.
        """
        if self.surfaces:
            return self.index(word)
        return int(super().add_symbol(word, n, overwrite))
