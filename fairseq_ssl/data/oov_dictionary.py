"""A dictionary with ids for out-of-vocabulary words."""

from __future__ import annotations

from typing import Any

from fairseq.data import Dictionary

from fairseq_ssl.text.word_ids import OpenVocabulary


class OovDictionary(OpenVocabulary, Dictionary):
    """A fairseq dictionary that assigns an id beyond its size to each out-of-vocabulary word.

    Models embed these ids as <unk> and can copy them to the output.
    """

    def __init__(self, **options: Any) -> None:
        OpenVocabulary.__init__(self)
        Dictionary.__init__(self, **options)

    def __getitem__(self, idx: Any) -> str:
        """Return the word with the id `idx`."""
        beyond = int(idx) - len(self.symbols)
        if 0 <= beyond < len(self.surfaces):
            return self.surfaces[beyond]
        return str(super().__getitem__(idx))

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """Add a word to the vocabulary and return its id.

        Once an out-of-vocabulary word has an id, the vocabulary cannot grow, so words are only
        looked up.
        """
        if self.surfaces:
            return self.index(word)
        return int(super().add_symbol(word, n, overwrite))
