"""What is asked of those who score sentences, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fairseq_ssl.rerank.length_norms import PENALTY

TRANSLATION, LANGUAGE_MODEL, MASKED_MODEL = "translation", "language-model", "masked-model"

Tokens = list[str]
Pair = tuple[Tokens, Tokens]
"""A source and its translation, in tokens of the model; of those that know one language only
the second counts."""


@dataclass(frozen=True)
class Scoring:
    """Models, and how to score with them."""

    kind: str
    """TRANSLATION, LANGUAGE_MODEL or MASKED_MODEL."""
    models: tuple[Path, ...]
    """Checkpoints, of an ensemble where there are several."""
    name: str
    """What the score is called; a second one has something behind it."""
    data_dir: Path | None = None
    """Folder of the dictionaries (None: the one the model was trained on)."""
    languages: tuple[str | None, str | None] = (None, None)
    """That the model translates between (None: the ones the checkpoint or that folder tells)."""
    reverse: bool = False
    """The model makes sources from translations."""
    right_to_left: bool | None = None
    """It writes the last token first (None: what the checkpoint tells)."""
    length_penalty: float = 1.0
    penalty: float = PENALTY
    """Alpha of PenLP."""
    logits: bool = False
    """Of a masked model, sum its scores before the softmax."""
    unigrams: Path | None = None
    """A file of tokens and counts (None: those of the dictionary)."""
    batch_tokens: int = 4000
    """Tokens of a batch, padding included."""
    half: bool = False
    device: str = "cpu"
    threads: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the scores, one or two."""
        second = {LANGUAGE_MODEL: ("slor",), MASKED_MODEL: ("penlp",)}.get(self.kind, ())
        return (self.name, *(f"{self.name}-{word}" for word in second))


@dataclass(frozen=True)
class Scored:
    """What is known of some pairs."""

    values: list[tuple[float, ...]]
    """The scores of each, by the names of the scoring."""
    tokens: int
    """Of all sentences that were read."""
    unknown: int
    """Tokens that the model does not know."""
    cut: int
    """Pairs that were longer than the model reads, and were cut."""


class Scorer(Protocol):
    """Scores sentences."""

    def score(self, pairs: Sequence[Pair]) -> Scored:
        """Return the scores of each pair."""


Loader = Callable[[Scoring, int], Scorer]
"""Loads a scorer in the process that uses it, whose number, from 0, chooses its GPU."""
