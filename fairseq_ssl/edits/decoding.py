"""Options for correction with edit taggers: choice of edits and number of rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairseq_ssl.options import check, option, options_of


@dataclass(frozen=True, kw_only=True)
class CorrectionSearch:
    """Options for choosing edits and the number of rounds. None selects the model's value."""

    iterations: int | None = option(
        None,
        "max number of rounds of edits; a sentence is finished when a round does not change it or "
        "restores an earlier version",
        low=1,
        usual="from the model, or 4",
    )
    keep_bias: float | None = option(
        None,
        "bias added to the probability of the keep label; higher values reduce the number of edits",
        low=-1,
        high=1,
        usual="from the model, or 0",
    )
    min_confidence: float | None = option(
        None,
        "min probability of an edit; less probable edits are not applied",
        low=0,
        high=1,
        usual="from the model, or 0",
    )
    min_sentence_confidence: float | None = option(
        None,
        "min error probability for changing a sentence; a sentence is changed only if a token has "
        "at least this error probability, which is predicted by the error detection head or, "
        "without this head, is 1 minus the probability of the keep label",
        low=0,
        high=1,
        usual="from the model, or 0",
    )

    def __post_init__(self) -> None:
        check(self)

    def or_else(self, other: CorrectionSearch) -> CorrectionSearch:
        """Return these options, with each None replaced with the value in `other`."""
        values = {name: getattr(self, name) for name in options_of(CorrectionSearch)}
        return replace(
            other, **{name: value for name, value in values.items() if value is not None}
        )


DEFAULT = CorrectionSearch(
    iterations=4, keep_bias=0.0, min_confidence=0.0, min_sentence_confidence=0.0
)
"""Search options for models that do not store these options."""
