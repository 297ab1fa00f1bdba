"""Aligned sentences of a test set, its gold errors, and the systems that corrected them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.maxmatch.scores import gold_edit, proposed_edits
from fairseq_ssl.metrics.metric import SeedRange
from fairseq_ssl.report.score_files import Breakdown
from fairseq_ssl.text.m2 import NOT_CORRECTED, EditApplier, M2Sentence, main_type


@dataclass(frozen=True)
class GoldError:
    """A gold error, its correction, and the systems that corrected it."""

    type: str
    words: str
    correction: str
    by: list[int] = field(default_factory=list)
    """Indices of the systems that corrected the error."""


def gold_errors(
    gold: Sequence[M2Sentence], outputs: Sequence[Sequence[str]]
) -> list[list[GoldError]]:
    """Return the errors in each sentence. Equal edits from several annotators are listed once.

    An error counts as corrected if MaxMatch extracts the gold edit from the system output.

    Args:
        gold: sentences of an M2 file.
        outputs: output lines of each system.
    """
    return [
        _sentence_errors(sentence, [lines[index] for lines in outputs])
        for index, sentence in enumerate(gold)
    ]


def _sentence_errors(sentence: M2Sentence, outputs: Sequence[str]) -> list[GoldError]:
    errors: dict[tuple[int, int, str, str], GoldError] = {}
    proposed = [proposed_edits(sentence, output) for output in outputs]
    for annotator, (_, edits) in enumerate(sorted(sentence.annotators.items())):
        for edit in edits:
            if edit.type in NOT_CORRECTED:
                continue
            gold = gold_edit(sentence, edit)
            key = (edit.start, edit.end, edit.type, " or ".join(gold.alternatives))
            error = errors.setdefault(key, GoldError(edit.type, gold.words, key[3]))
            for system, paths in enumerate(proposed):
                if system not in error.by and any(map(gold.fits, paths[annotator])):
                    error.by.append(system)
    return [errors[key] for key in sorted(errors)]


def annotator_texts(gold: Sequence[M2Sentence], name: str) -> list[list[str]]:
    """Return the corrected text of each annotator.

    If an annotator skipped sentences, only the first annotator's text is returned. If edits overlap
    and cannot be applied, the list is empty.
    """
    annotators = sorted({number for sentence in gold for number in sentence.annotators})
    if any(len(sentence.annotators) < len(annotators) for sentence in gold):
        annotators = annotators[:1]
    try:
        return [list(map(EditApplier(name, number), gold)) for number in annotators]
    except DataError:  # overlapping edits cannot be applied, but can be scored
        return []


def corrected_by_type(errors: Sequence[Sequence[GoldError]], systems: Sequence[str]) -> Breakdown:
    """Return the percentage of corrected errors by system, for all errors and each main type."""
    all_errors = [error for line_errors in errors for error in line_errors]
    by_type: dict[str, list[GoldError]] = {}
    for error in all_errors:
        by_type.setdefault(main_type(error.type), []).append(error)
    rows = sorted(by_type.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(rows) > 1:
        rows.insert(0, ("all", all_errors))
    return {
        f"{kind} ({len(of_kind)})": {
            name: SeedRange([100 * sum(system in error.by for error in of_kind) / len(of_kind)])
            for system, name in enumerate(systems)
        }
        for kind, of_kind in rows
    }


SOURCE, REFERENCE = "source", "reference"


@dataclass
class Sentences:
    """Aligned sides of a test set: source, references and system outputs."""

    systems: list[str]
    outputs: list[list[str]]
    """Output lines of each system."""
    source: list[str] | None = None
    references: list[list[str]] = field(default_factory=list)
    errors: list[list[GoldError]] | None = None
    """Gold errors in each sentence, or None without an M2 file."""
    scores: list[list[float]] | None = None
    """Sentence scores of each system, or None without a metric."""
    metric: str = ""
    """Name of the metric of `scores`, or "" without a metric."""
    has_seeds: bool = False
    """True if a system has several seeds, of which only the first is shown."""
    languages: tuple[str, str] = ("", "")
    """Language codes of the source and of the other sides, for the browser."""

    def check(self, names: Sequence[str | Path]) -> None:
        """Raise DataError unless all sides have the same number of lines, 1 or more.

        Args:
            names: output file names, for the error message.
        """
        expected = len(self.outputs[0])
        if not expected:
            raise DataError(f"{names[0]} is empty. Expected at least one line.")
        parts = [*zip(map(str, names), self.outputs, strict=True)]
        parts += [("the source", self.source)] if self.source is not None else []
        parts += [("a reference", lines) for lines in self.references]
        for name, lines in parts:
            if len(lines) != expected:
                raise DataError(
                    f"{names[0]} has {expected} lines but {name} has {len(lines)}. All files must "
                    "contain the same sentences. Set `test_set` if there are several test sets."
                )

    def sides(self) -> list[str]:
        """Return the names of the source and the references."""
        count = len(self.references)
        names = [REFERENCE] if count == 1 else [f"{REFERENCE} {i + 1}" for i in range(count)]
        return [*([SOURCE] * (self.source is not None)), *names]

    def against(self) -> str:
        """Return the side against which changes are marked by default.

        The default is the source if the outputs are corrections, otherwise the first reference. If
        there are no references, it is the first system.
        """
        if self.source is not None and (self.errors is not None or self._is_corrected()):
            return SOURCE
        if self.references:
            return REFERENCE if len(self.references) == 1 else f"{REFERENCE} 1"
        return self.systems[0]

    def types(self, category: Callable[[str], str] = str) -> Counter[str]:
        """Count the sentences that contain errors of each type, or of each category of types."""
        kinds = ({category(error.type) for error in errors} for errors in self.errors or ())
        return Counter(kind for sentence in kinds for kind in sentence)

    def _is_corrected(self) -> bool:
        """Return True if the first system keeps most words of the first 200 source sentences."""
        assert self.source is not None
        shared = total = 0
        for source, output in zip(self.source[:200], self.outputs[0][:200], strict=True):
            words = set(source.split())
            shared += len(words & set(output.split()))
            total += len(words)
        return 2 * shared > total

    def content(self) -> dict[str, Any]:
        """Return the sides and the errors as JSON-serializable values, for the page's script."""
        texts = [self.source] if self.source is not None else []
        texts += self.references
        source, target = self.languages
        sides: list[dict[str, Any]] = [
            {"name": name, "lang": source if name == SOURCE else target, "lines": lines}
            for name, lines in zip(self.sides(), texts, strict=True)
        ]
        for system, (name, lines) in enumerate(zip(self.systems, self.outputs, strict=True)):
            sides.append({"name": name, "lang": target, "lines": lines, "system": system})
            if self.scores is not None:
                sides[-1]["scores"] = self.scores[system]
        if self.errors is None:
            return {"sides": sides, "errors": None}
        return {"sides": sides, "errors": [list(map(asdict, errors)) for errors in self.errors]}
