"""Options of correction by edit taggers: how edits are chosen, and in how many rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairseq_ssl.options import check, option, options_of


@dataclass(frozen=True, kw_only=True)
class CorrectionSearch:
    """Choice of edits from their probabilities, in rounds. None is the value of the model."""

    iterations: int | None = option(
        None,
        "max rounds of edits; a sentence is finished when a round does not change it or restores "
        "an earlier version",
        low=1,
        usual="that of the model, or 4",
    )
    keep_bias: float | None = option(
        None,
        "number added to the probability of keep; higher values give fewer edits",
        low=-1,
        high=1,
        usual="that of the model, or 0",
    )
    min_confidence: float | None = option(
        None,
        "min probability of an edit; tokens with less probable edits are kept",
        low=0,
        high=1,
        usual="that of the model, or 0",
    )
    min_sentence_confidence: float | None = option(
        None,
        "min error probability that a token of a sentence must reach; other sentences are not "
        "changed; the error probability is that of the error detection head or, without it, 1 "
        "minus the probability of keep",
        low=0,
        high=1,
        usual="that of the model, or 0",
    )

    def __post_init__(self) -> None:
        check(self)

    def or_else(self, other: CorrectionSearch) -> CorrectionSearch:
        """Return these options, with those of `other` in place of None."""
        values = {name: getattr(self, name) for name in options_of(CorrectionSearch)}
        return replace(
            other, **{name: value for name, value in values.items() if value is not None}
        )


DEFAULT = CorrectionSearch(
    iterations=4, keep_bias=0.0, min_confidence=0.0, min_sentence_confidence=0.0
)
"""The options of a model that has no others."""
