"""The errors that annotators found, and which systems corrected them as an annotator did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.errant import main_type
from fairseq_ssl.metrics.maxmatch.scores import MaxMatch, gold_edit
from fairseq_ssl.metrics.significance import SeedRange
from fairseq_ssl.report.told import Parts
from fairseq_ssl.text.m2 import NOT_CORRECTED, M2Sentence, corrected


@dataclass(frozen=True)
class GoldError:
    """An error, and what it should become."""

    type: str
    words: str
    correction: str
    by: list[int] = field(default_factory=list)
    """The systems that corrected it."""

    @property
    def main_type(self) -> str:
        """Return the type without its operation."""
        return main_type(self.type)


def gold_errors(
    gold: Sequence[M2Sentence], outputs: Sequence[Sequence[str]]
) -> list[list[GoldError]]:
    """Return the errors of each sentence, those that annotators agree on once.

    A system has corrected one if the edit is among those that MaxMatch takes from its output.
    """
    match = MaxMatch()
    return [
        _of_sentence(match, sentence, [lines[at] for lines in outputs])
        for at, sentence in enumerate(gold)
    ]


def _of_sentence(match: MaxMatch, sentence: M2Sentence, outputs: Sequence[str]) -> list[GoldError]:
    found: dict[tuple[int, int, str, str], GoldError] = {}
    made = [match.edits(sentence, output) for output in outputs]
    for at, (_, edits) in enumerate(sorted(sentence.annotators.items())):
        for edit in edits:
            if edit.type in NOT_CORRECTED:
                continue
            wanted = gold_edit(sentence, edit)
            key = (edit.start, edit.end, edit.type, " or ".join(wanted.alternatives))
            error = found.setdefault(key, GoldError(edit.type, wanted.words, key[3]))
            for system, paths in enumerate(made):
                if system not in error.by and any(map(wanted.fits, paths[at])):
                    error.by.append(system)
    return [found[key] for key in sorted(found)]


def references(gold: Sequence[M2Sentence], name: str) -> list[list[str]]:
    """Return the sentences as each annotator wants them, if all saw all of them."""
    annotators = sorted({number for sentence in gold for number in sentence.annotators})
    if any(len(sentence.annotators) < len(annotators) for sentence in gold):
        annotators = annotators[:1]
    try:
        return [[corrected(one, number, name) for one in gold] for number in annotators]
    except DataError:  # edits over each other, which scores do without
        return []


def corrected_by_type(errors: Sequence[Sequence[GoldError]], systems: Sequence[str]) -> Parts:
    """Return the share of errors of each type that each system corrected, in percent."""
    every = [error for of_line in errors for error in of_line]
    kinds: dict[str, list[GoldError]] = {}
    for error in every:
        kinds.setdefault(error.main_type, []).append(error)
    rows = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(rows) > 1:
        rows.insert(0, ("all", every))
    return {
        f"{kind} ({len(of_kind)})": {
            name: SeedRange.of([100 * sum(at in one.by for one in of_kind) / len(of_kind)])
            for at, name in enumerate(systems)
        }
        for kind, of_kind in rows
    }
