"""Open vocabularies, which assign ids to unknown words."""

from __future__ import annotations

from pathlib import Path

from fairseq_ssl.text.vocabulary import RESERVED, read_entries


class OpenVocabulary:
    """Vocabulary that also assigns ids to unknown words. These ids start at the vocabulary size.

    The ids of unknown words are valid only within one process and must not be stored.
    """

    symbols: list[str]
    """Symbols of the vocabulary, by id."""
    indices: dict[str, int]
    """Id of each symbol in the vocabulary."""

    def __init__(self) -> None:
        self.unknown: dict[str, int] = {}
        self.surfaces: list[str] = []

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
        """Discard the unknown words. Their ids become invalid."""
        self.unknown.clear()
        self.surfaces.clear()


class WordIds(OpenVocabulary):
    """Open vocabulary with fairseq's special symbols, for models that run without fairseq."""

    nspecial = len(RESERVED)

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.symbols = [*RESERVED, *words]
        self.indices = {symbol: number for number, symbol in enumerate(self.symbols)}

    @classmethod
    def read(cls, path: Path) -> WordIds:
        """Create a vocabulary from a dictionary file in fairseq format."""
        return cls(tuple(word for word, _ in read_entries(path)))

    def __getitem__(self, number: int) -> str:
        beyond = number - len(self.symbols)
        return self.symbols[number] if beyond < 0 else self.surfaces[beyond]

    def bos(self) -> int:
        """Return the id of <s>."""
        return 0

    def pad(self) -> int:
        """Return the id of <pad>."""
        return 1

    def eos(self) -> int:
        """Return the id of </s>."""
        return 2

    def unk(self) -> int:
        """Return the id of <unk>."""
        return 3
