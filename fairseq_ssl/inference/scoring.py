"""Sentence scoring: options, length normalization, and the interface of scorers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fairseq_ssl.errors import DataError, UsageError, check_positive
from fairseq_ssl.io.text_files import convert_fields
from fairseq_ssl.options import check, option

TRANSLATION, LANGUAGE_MODEL, MASKED_MODEL = "translation", "language-model", "masked-model"
MAX_PENALTY = 20
"""Max exponent of a length. Higher powers exceed the range of floats."""

NEEDED = {
    **dict.fromkeys(("reverse", "right_to_left", "lenpen"), TRANSLATION),
    "unigrams": LANGUAGE_MODEL,
}
"""Kind of model that each of these options needs."""

TokenPair = tuple[list[str], list[str]]
"""Tokens of a source and of its translation. Language models score only the translation."""


@dataclass(frozen=True)
class ScoringConfig:
    """Models and scoring options.

    >>> ScoringConfig("masked-model", ("roberta",), "mlm").names
    ('mlm', 'mlm-penlp')
    """

    kind: str
    """``translation``, ``language-model`` or ``masked-model``."""
    models: tuple[str | Path, ...]
    """One or more checkpoints. Masked models can also be folders of transformers."""
    name: str = option(
        "",
        "name of the score",
        usual="s2t, or t2s in the reverse direction, with the suffix -r2l for right-to-left "
        "models; lm; mlm",
        metavar="NAME",
    )
    data_dir: str | Path | None = None
    """Folder with the dictionaries of the checkpoints."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target language (default: from the checkpoint or the data folder)."""
    reverse: bool = option(False, "score in the reverse direction: log P(source | candidate)")
    right_to_left: bool = option(
        False, "the model generates the last token first (default: from the checkpoint)"
    )
    lenpen: float = option(
        1.0, "length penalty of translation models; 0 stands for log P", low=0, high=MAX_PENALTY
    )
    unigrams: str | Path | None = option(
        None,
        "token counts for SLOR, one token and its count per line; each count is incremented by one "
        "(default: the dictionary of the language model)",
    )
    max_tokens: int = 4000
    """Maximum number of tokens of a batch, including padding."""
    fp16: bool = option(False, "use half precision, which is twice as fast on GPUs")
    device: str = "cpu"
    threads: int | None = None
    """CPU threads of each process (None: 1 in worker processes, otherwise unchanged)."""

    def __post_init__(self) -> None:
        convert_fields(self, ["data_dir", "unigrams"], ["models"])
        object.__setattr__(self, "languages", tuple(self.languages))
        if not self.models:
            raise UsageError("`models` is empty. Expected at least one checkpoint.")
        check(self)
        check_positive("max_tokens", self.max_tokens)
        check_positive("threads", 1 if self.threads is None else self.threads)
        for name, kind in NEEDED.items():
            if self.kind != kind and getattr(self, name) != getattr(type(self), name):
                raise UsageError(f"`{name}` needs `{kind.replace('-', '_')}`.")
        if self.name and (self.name.split() != [self.name] or "=" in self.name):
            raise UsageError(f"`name` is {self.name!r}. Expected one word without = and spaces.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores: one for translation models, two for language models."""
        second = {LANGUAGE_MODEL: ("slor",), MASKED_MODEL: ("penlp",)}.get(self.kind, ())
        return (self.name, *(f"{self.name}-{word}" for word in second))


@dataclass(frozen=True)
class Scored:
    """Scores and counts of sentence pairs."""

    values: list[tuple[float, ...]]
    """Scores of each pair, in the order of `ScoringConfig.names`."""
    tokens: int
    """Number of tokens of all pairs that the model reads."""
    unknown: int
    """Number of out-of-vocabulary tokens."""
    cut: int
    """Number of pairs that were truncated to the model's maximum length."""


class Scorer(Protocol):
    """Interface of sentence scorers."""

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return the scores of each pair, in order, and the counts of all pairs."""


CHECKED_TOKENS = 200
"""Min number of tokens for the check that the text is segmented like the training data."""


def check_known_tokens(unknown: int, tokens: int, where: str) -> None:
    """Raise DataError if more than half of the tokens are unknown."""
    if unknown > tokens / 2:
        raise DataError(
            f"{unknown} of the {tokens} tokens in {where} are not in the model's dictionary. The "
            "text must be segmented like the training data: set `subwords` for both sides, or "
            "check the languages."
        )
