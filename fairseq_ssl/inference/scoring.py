"""Sentence scoring: options, the interface of scorers, and a check for unknown tokens."""

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
"""Max length penalty. Beyond it, length ** penalty would exceed the range of floats."""

NEEDED = {
    **dict.fromkeys(("reverse", "right_to_left", "lenpen"), TRANSLATION),
    "unigrams": LANGUAGE_MODEL,
}
"""Kind of model to which each option applies."""

TokenPair = tuple[list[str], list[str]]
"""Tokens of a source and of its translation. Language models score only the translation."""


@dataclass(frozen=True)
class ScoringConfig:
    """Models and scoring options.

    >>> ScoringConfig("masked-model", ("roberta",), "mlm").names
    ('mlm', 'mlm-penlp')
    """

    kind: str
    """Kind of the models: ``translation``, ``language-model`` or ``masked-model``."""
    models: tuple[str | Path, ...]
    """Checkpoints, one or several. Masked language models can also be Hugging Face folders."""
    name: str = option(
        "",
        "name of the score",
        usual="s2t, or t2s in the reverse direction, with the suffix -r2l for right-to-left "
        "models; lm for language models; mlm for masked language models",
        metavar="NAME",
    )
    data_dir: str | Path | None = None
    """Folder with the dictionaries of the checkpoints."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target language (default: from the checkpoint or the data folder)."""
    reverse: bool = option(False, "score in the reverse direction: log P(source | candidate)")
    right_to_left: bool = option(
        False, "score with right-to-left models (default: read from the checkpoint)"
    )
    lenpen: float = option(
        1.0,
        "length penalty of translation models; 0 disables the normalization of log P by length",
        low=0,
        high=MAX_PENALTY,
    )
    unigrams: str | Path | None = option(
        None,
        "file of token counts for SLOR, with one token and its count per line; 1 is added to each "
        "count (default: counts in the language model's dictionary)",
    )
    max_tokens: int = 4000
    """Maximum number of tokens per batch, including padding."""
    fp16: bool = option(False, "use half precision, which is about twice as fast on a GPU")
    device: str = "cpu"
    threads: int | None = None
    """Number of CPU threads per process (default: 1 in worker processes, else torch's setting)."""

    def __post_init__(self) -> None:
        convert_fields(self, ["data_dir", "unigrams"], ["models"])
        object.__setattr__(self, "languages", tuple(self.languages))
        if not self.models:
            raise UsageError("`models` is empty. Expected at least one model.")
        check(self)
        check_positive("max_tokens", self.max_tokens)
        check_positive("threads", 1 if self.threads is None else self.threads)
        for name, kind in NEEDED.items():
            if self.kind != kind and getattr(self, name) != getattr(type(self), name):
                raise UsageError(f"`{name}` is for the kind {kind}, not {self.kind}. Remove it.")
        if self.name and (self.name.split() != [self.name] or "=" in self.name):
            raise UsageError(
                f"`name` is {self.name!r}. Expected a name that contains no spaces and no '='."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores: one for translation models, two for language models."""
        second = {LANGUAGE_MODEL: ("slor",), MASKED_MODEL: ("penlp",)}.get(self.kind, ())
        return (self.name, *(f"{self.name}-{word}" for word in second))


@dataclass(frozen=True)
class Scored:
    """Scores of sentence pairs, and counts over all pairs."""

    values: list[tuple[float, ...]]
    """Scores of each pair, in the order of `ScoringConfig.names`."""
    tokens: int
    """Number of tokens in all pairs. For language models, only translations are counted."""
    unknown: int
    """Number of out-of-vocabulary tokens."""
    cut: int
    """Number of pairs that were truncated to the model's maximum length."""


class Scorer(Protocol):
    """Interface of sentence scorers."""

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return the scores of each pair, in input order, and token counts over all pairs."""


CHECKED_TOKENS = 200
"""Min number of scored tokens for `check_known_tokens`, except at the end of the list."""


def check_known_tokens(unknown: int, tokens: int, where: str) -> None:
    """Raise DataError if more than half of the tokens are unknown."""
    if unknown > tokens / 2:
        raise DataError(
            f"{unknown} of the {tokens} tokens in {where} are not in the model's dictionary. The "
            "text must be segmented like the training data. Set `subwords` to the model's subword "
            "models, or check the languages."
        )
