"""Options for correction with edit taggers: how edits are chosen, and the number of rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairseq_ssl.options import check, option, options_of


@dataclass(frozen=True, kw_only=True)
class CorrectionSearch:
    """Options for choosing edits from their probabilities. None: the value in the model."""

    iterations: int | None = option(
        None,
        "max correction rounds; a sentence is finished when a round does not change it or restores "
        "an earlier version",
        low=1,
        usual="the model's value, or 4",
    )
    keep_bias: float | None = option(
        None,
        "bias added to the probability of keep; higher values give fewer edits",
        low=-1,
        high=1,
        usual="the model's value, or 0",
    )
    min_confidence: float | None = option(
        None,
        "min probability of an edit; tokens with less probable edits are kept",
        low=0,
        high=1,
        usual="the model's value, or 0",
    )
    min_sentence_confidence: float | None = option(
        None,
        "min error probability that a token in a sentence must reach; other sentences are not "
        "changed; error probabilities are from the error detection head or, without it, 1 minus "
        "the probability of keep",
        low=0,
        high=1,
        usual="the model's value, or 0",
    )

    def __post_init__(self) -> None:
        check(self)

    def or_else(self, other: CorrectionSearch) -> CorrectionSearch:
        """Return these options. Each None is replaced with the value in `other`."""
        values = {name: getattr(self, name) for name in options_of(CorrectionSearch)}
        return replace(
            other, **{name: value for name, value in values.items() if value is not None}
        )


DEFAULT = CorrectionSearch(
    iterations=4, keep_bias=0.0, min_confidence=0.0, min_sentence_confidence=0.0
)
"""The options for a model that contains none."""
