"""What is asked of those who decode, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Decoding:
    """A model and how to decode with it; sizes are in tokens."""

    models: tuple[Path, ...]
    """Checkpoints, of an ensemble where there are several; or one folder of CTranslate2's."""
    data_dir: Path | None = None
    """Folder of the dictionaries (None: the one the model was trained on)."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target (None: the ones the checkpoint or that folder tells)."""
    beam: int = 6
    length_penalty: float = 1.0
    nbest: int = 1
    sampling: bool = False
    top_k: int = 0
    """0: any token may be sampled."""
    temperature: float = 1.0
    longest: int = 250
    """Tokens that are written at most."""
    batch_tokens: int = 4000
    """Tokens of a batch of sources, padding included."""
    compute_type: str = "float32"
    device: str = "cpu"
    threads: int = 1
    options: tuple[str, ...] = ()
    """Of fairseq-generate, for the fairseq engine alone."""


Written = list[str] | None
"""The lines for a sentence, best first, where a search may keep none; None: it failed."""


class Decoder(Protocol):
    """Writes sentences for sentences."""

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Written]:
        """Return what is written for each sentence of tokens.

        What is random depends on the ids, or on a seed set by `begin`.
        """

    def begin(self, seed: int) -> None:
        """Draw from here on what this seed gives."""


Loader = Callable[[Decoding, int], Decoder]
"""Loads a decoder in the process that uses it, whose number, from 0, chooses its GPU."""
