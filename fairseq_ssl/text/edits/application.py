"""From a sentence and its labels to the edited sentence (PIE, section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.edits.labels import KEEP, Label


def edited(source: Sequence[str], labels: Sequence[Label]) -> list[str]:
    """Carry out the edits; the first is that of the sentence's start.

    Raises DataError where a label does not fit its token, and where there are too few or too
    many.
    """
    if len(labels) != len(source) + 1:
        raise DataError(
            f"There are {len(labels)} labels for {len(source)} tokens; expected one for the start "
            f"of the sentence and one for each token: {len(source) + 1}."
        )
    if not labels[0].kept:
        raise DataError(f"{labels[0]} does not fit the start; expected KEEP or APPEND.")
    result = list(labels[0].gram)
    for token, label in zip(source, labels[1:], strict=True):
        if label is KEEP:
            result.append(token)
        else:
            result += label.edited(token)
    return result
