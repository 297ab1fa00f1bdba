"""The sentences of all systems side by side, with gold errors and who corrected them."""

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
from fairseq_ssl.metrics.significance import SeedRange
from fairseq_ssl.report.score_files import Parts
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


SOURCE, REFERENCE = "source", "reference"


@dataclass
class Sentences:
    """Lines of the same sentences."""

    systems: list[str]
    outputs: list[list[str]]
    """By system."""
    source: list[str] | None = None
    references: list[list[str]] = field(default_factory=list)
    errors: list[list[GoldError]] | None = None
    """That annotators found in each source."""
    scores: list[list[float]] | None = None
    """By system."""
    metric: str = ""
    """That the scores are of."""
    has_seeds: bool = False
    """Whether of some system there are others than those shown."""
    languages: tuple[str, str] = ("", "")
    """Of the source, and of the others, as a browser knows them."""

    def check(self, names: Sequence[Path]) -> None:
        """Refuse files of unlike lengths; `names` are those of the outputs."""
        wanted = len(self.outputs[0])
        if not wanted:
            raise DataError(f"{names[0]} is empty. Expected a line or more.")
        parts = [*zip(map(str, names), self.outputs, strict=True)]
        parts += [("the source", self.source)] if self.source is not None else []
        parts += [("a reference", one) for one in self.references]
        for name, lines in parts:
            if len(lines) != wanted:
                raise DataError(
                    f"{names[0]} has {wanted} lines and {name} {len(lines)}. Expected the same "
                    "sentences on all sides; --set chooses the outputs."
                )

    def sides(self) -> list[str]:
        """Return what is not of a system: the source and the references, by name."""
        count = len(self.references)
        wanted = [REFERENCE] if count == 1 else [f"{REFERENCE} {at + 1}" for at in range(count)]
        return [*([SOURCE] * (self.source is not None)), *wanted]

    def against(self) -> str:
        """Return what edits are marked against: what the outputs are most like."""
        if self.source is not None and (self.errors is not None or self._is_corrected()):
            return SOURCE
        if self.references:
            return REFERENCE if len(self.references) == 1 else f"{REFERENCE} 1"
        return self.systems[0]

    def types(self) -> Counter[str]:
        """Return the types of errors, and in how many sentences each is."""
        return Counter(
            kind for errors in self.errors or () for kind in {one.type for one in errors}
        )

    def main_types(self) -> Counter[str]:
        """Return the same of types without their operation."""
        return Counter(
            kind for errors in self.errors or () for kind in {one.main_type for one in errors}
        )

    def _is_corrected(self) -> bool:
        """Tell whether outputs share most of their words with the source."""
        assert self.source is not None
        shared = total = 0
        for given, made in zip(self.source[:200], self.outputs[0][:200], strict=True):
            words = set(given.split())
            shared += len(words & set(made.split()))
            total += len(words)
        return 2 * shared > total

    def content(self) -> dict[str, Any]:
        """Return what the page's script reads."""
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
        return {"sides": sides, "errors": [list(map(asdict, of_line)) for of_line in self.errors]}


def read_all(path: Path) -> list[str]:
    """Read the lines of a file."""
    return list(read_lines(path))
