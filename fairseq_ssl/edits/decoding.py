"""Options of correction by edit taggers: how edits are chosen, and in how many rounds."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_ssl.options import check, option


@dataclass(frozen=True, kw_only=True)
class CorrectionSearch:
    """Choice of edits from their probabilities, in rounds."""

    iterations: int = option(
        4,
        "max rounds of edits; a sentence is finished when a round does not change it or restores "
        "an earlier version",
        low=1,
    )
    keep_bias: float = option(
        0.0,
        "number added to the probability of keep; higher values give fewer edits",
        low=-1,
        high=1,
    )
    delete_bias: float = option(0.0, "number added to the probability of delete", low=-1, high=1)
    min_confidence: float = option(
        0.0,
        "min probability of an edit; tokens with less probable edits are kept",
        low=0,
        high=1,
    )
    min_sentence_confidence: float = option(
        0.0,
        "min error probability that a token of a sentence must reach; other sentences are not "
        "changed; the error probability is that of the error detection head or, without it, 1 "
        "minus the probability of keep",
        low=0,
        high=1,
    )

    def __post_init__(self) -> None:
        check(self)
