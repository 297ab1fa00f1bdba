"""Sentences of all systems side by side, with gold errors and the systems that corrected them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.errant import main_type
from fairseq_ssl.metrics.maxmatch.scores import MaxMatch, gold_edit
from fairseq_ssl.metrics.metric import SeedRange
from fairseq_ssl.report.score_files import Breakdown
from fairseq_ssl.text.m2 import NOT_CORRECTED, M2Sentence, apply_m2_edits


@dataclass(frozen=True)
class GoldError:
    """An error that an annotator found, and its correction."""

    type: str
    words: str
    correction: str
    by: list[int] = field(default_factory=list)
    """Indices of the systems that corrected the error."""

    @property
    def main_type(self) -> str:
        """Return the type without its operation."""
        return main_type(self.type)


def gold_errors(
    gold: Sequence[M2Sentence], outputs: Sequence[Sequence[str]]
) -> list[list[GoldError]]:
    """Return the errors of each sentence. An error of several annotators is listed once.

    A system corrected an error if MaxMatch extracts the edit from its output.
    """
    match = MaxMatch()
    return [
        _sentence_errors(match, sentence, [lines[at] for lines in outputs])
        for at, sentence in enumerate(gold)
    ]


def _sentence_errors(
    match: MaxMatch, sentence: M2Sentence, outputs: Sequence[str]
) -> list[GoldError]:
    errors: dict[tuple[int, int, str, str], GoldError] = {}
    proposed = [match.edits(sentence, output) for output in outputs]
    for at, (_, edits) in enumerate(sorted(sentence.annotators.items())):
        for edit in edits:
            if edit.type in NOT_CORRECTED:
                continue
            gold = gold_edit(sentence, edit)
            key = (edit.start, edit.end, edit.type, " or ".join(gold.alternatives))
            error = errors.setdefault(key, GoldError(edit.type, gold.words, key[3]))
            for system, paths in enumerate(proposed):
                if system not in error.by and any(map(gold.fits, paths[at])):
                    error.by.append(system)
    return [errors[key] for key in sorted(errors)]


def annotator_texts(gold: Sequence[M2Sentence], name: str) -> list[list[str]]:
    """Return the text of each annotator, or only of the first one if some skipped sentences."""
    annotators = sorted({number for sentence in gold for number in sentence.annotators})
    if any(len(sentence.annotators) < len(annotators) for sentence in gold):
        annotators = annotators[:1]
    try:
        return [[apply_m2_edits(one, number, name) for one in gold] for number in annotators]
    except DataError:  # overlapping edits, which scores do not need to apply
        return []


def corrected_by_type(errors: Sequence[Sequence[GoldError]], systems: Sequence[str]) -> Breakdown:
    """Return the percentage of errors of each type that each system corrected."""
    every = [error for line_errors in errors for error in line_errors]
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


SOURCE, REFERENCE = "source", "reference"


@dataclass
class Sentences:
    """The same sentences on all sides: source, references, outputs of systems."""

    systems: list[str]
    outputs: list[list[str]]
    """By system."""
    source: list[str] | None = None
    references: list[list[str]] = field(default_factory=list)
    errors: list[list[GoldError]] | None = None
    """Gold errors of each source."""
    scores: list[list[float]] | None = None
    """By system."""
    metric: str = ""
    """Name of the metric of the scores."""
    has_seeds: bool = False
    """Whether a system has more outputs than the one shown."""
    languages: tuple[str, str] = ("", "")
    """Language codes of the source and of the other sides, for the browser."""

    def check(self, names: Sequence[Path]) -> None:
        """Raise an error unless all sides have the same number of lines.

        Args:
            names: files of the outputs
        """
        expected = len(self.outputs[0])
        if not expected:
            raise DataError(f"{names[0]} is empty. Expected a line or more.")
        parts = [*zip(map(str, names), self.outputs, strict=True)]
        parts += [("the source", self.source)] if self.source is not None else []
        parts += [("a reference", one) for one in self.references]
        for name, lines in parts:
            if len(lines) != expected:
                raise DataError(
                    f"{names[0]} has {expected} lines and {name} {len(lines)}. Expected the same "
                    "sentences on all sides. Set `test_set` to choose the outputs."
                )

    def sides(self) -> list[str]:
        """Return the names of the source and the references."""
        count = len(self.references)
        names = [REFERENCE] if count == 1 else [f"{REFERENCE} {at + 1}" for at in range(count)]
        return [*([SOURCE] * (self.source is not None)), *names]

    def against(self) -> str:
        """Return the side that edits are marked against, which is most similar to the outputs."""
        if self.source is not None and (self.errors is not None or self._is_corrected()):
            return SOURCE
        if self.references:
            return REFERENCE if len(self.references) == 1 else f"{REFERENCE} 1"
        return self.systems[0]

    def types(self) -> Counter[str]:
        """Return the number of sentences with each type of error."""
        return Counter(
            kind for errors in self.errors or () for kind in {one.type for one in errors}
        )

    def main_types(self) -> Counter[str]:
        """Return the number of sentences with each type of error, without its operation."""
        return Counter(
            kind for errors in self.errors or () for kind in {one.main_type for one in errors}
        )

    def _is_corrected(self) -> bool:
        """Return True if outputs share most of their words with the source."""
        assert self.source is not None
        shared = total = 0
        for source, output in zip(self.source[:200], self.outputs[0][:200], strict=True):
            words = set(source.split())
            shared += len(words & set(output.split()))
            total += len(words)
        return 2 * shared > total

    def content(self) -> dict[str, Any]:
        """Return the data for the script of the page."""
        texts = [self.source] if self.source is not None else []
        texts += self.references
        source, others = self.languages
        sides: list[dict[str, Any]] = [
            {"name": name, "lang": source if name == SOURCE else others, "lines": lines}
            for name, lines in zip(self.sides(), texts, strict=True)
        ]
        for at, (name, lines) in enumerate(zip(self.systems, self.outputs, strict=True)):
            sides.append({"name": name, "lang": others, "lines": lines, "system": at})
            if self.scores is not None:
                sides[-1]["scores"] = self.scores[at]
        if self.errors is None:
            return {"sides": sides, "errors": None}
        return {"sides": sides, "errors": [list(map(asdict, errors)) for errors in self.errors]}


def read_all(path: Path) -> list[str]:
    """Read the lines of a file."""
    return list(read_lines(path))
